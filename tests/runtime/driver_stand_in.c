/* A stand-in for the CUDA driver: the call protocol without a GPU.

   Device memory is the host's.  A launch does not run the kernel: it writes what it was given to a log, adds one to
   the first byte of the memory that the first eight bytes of the parameters point to, and is over.  The call named in
   FAIL is refused with the code in FAIL_CODE.  Time does not pass: any two events are 250 us apart. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int CUresult;
typedef uint64_t CUdeviceptr;

static char log_text[1 << 16];
static size_t log_size;
static char failing[64];
static int failing_code;
static int devices = 1;
static void *current;
static int live;

static int contexts[2], modules[64], functions[64], library, kernel;

/* A log that is full takes no more. */
#define SAY(...) \
    do { if (log_size < sizeof log_text) \
        log_size += (size_t)snprintf(log_text + log_size, sizeof log_text - log_size, __VA_ARGS__); } while (0)
#define CALL(name) \
    do { if (strcmp(failing, name) == 0) { SAY("%s refused\n", name); return failing_code; } } while (0)

const char *stand_in_log(void) { return log_text; }
int stand_in_live_allocations(void) { return live; }
void stand_in_reset(const char *fail, int code, int device_count, int has_context) {
    snprintf(failing, sizeof failing, "%s", fail);
    failing_code = code;
    devices = device_count;
    current = has_context ? &contexts[1] : NULL;
    log_size = 0;
    log_text[0] = 0;
}

CUresult cuInit(unsigned flags) { CALL("cuInit"); SAY("init %u\n", flags); return 0; }
CUresult cuGetErrorName(int code, const char **text) { *text = code == 209 ? "CUDA_ERROR_NO_BINARY_FOR_GPU" : "CUDA_ERROR_OTHER"; return 0; }
CUresult cuGetErrorString(int code, const char **text) { *text = code == 209 ? "no kernel image is available for execution on the device" : "something else"; return 0; }
CUresult cuDriverGetVersion(int *version) { *version = 13000; return 0; }
CUresult cuDeviceGetCount(int *count) { *count = devices; return 0; }
CUresult cuDeviceGet(int *device, int number) { *device = number; return 0; }
CUresult cuDeviceGetName(char *name, int size, int device) { snprintf(name, (size_t)size, "Stand-in %d", device); return 0; }
CUresult cuDeviceGetAttribute(int *value, int attribute, int device) {
    (void)device;
    if (attribute == 75) *value = 8; else if (attribute == 76) *value = 9; else return 1;
    return 0;
}
CUresult cuDevicePrimaryCtxRetain(void **context, int device) { CALL("cuDevicePrimaryCtxRetain"); SAY("retain %d\n", device); *context = &contexts[0]; return 0; }
CUresult cuCtxGetCurrent(void **context) { *context = current; return 0; }
CUresult cuCtxGetDevice(int *device) { if (!current) return 201; *device = 0; return 0; }
CUresult cuCtxPushCurrent_v2(void *context) { SAY("push\n"); current = context; return 0; }
CUresult cuCtxPopCurrent_v2(void **context) { SAY("pop\n"); *context = current; current = NULL; return 0; }

CUresult cuModuleLoadDataEx(void **module, const void *image, unsigned count, int *options, void **values) {
    static int loaded;
    if (!current) return 201;
    for (unsigned i = 0; i < count; i++)
        if (options[i] == 5) snprintf((char *)values[i], (size_t)values[i + 1], "%s", "ptxas: what is wrong with it");
    CALL("cuModuleLoadDataEx");
    /* What a process that is not ours is told: which images to refuse. */
    const char *refused = getenv("STAND_IN_REFUSES");
    if (refused && strcmp(refused, "cubin") == 0 && memcmp(image, "\177ELF", 4) == 0) return 209;
    SAY("load %s\n", memcmp(image, "\177ELF", 4) == 0 ? "cubin" : memcmp(image, "\x50\xed\x55\xba", 4) == 0 ? "fatbin" : "ptx");
    *module = &modules[loaded++ % 64];
    return 0;
}
CUresult cuModuleUnload(void *module) { (void)module; return 0; }
CUresult cuModuleGetFunction(void **function, void *module, const char *name) { CALL("cuModuleGetFunction"); if (strcmp(name, "crash") == 0) abort(); if (strcmp(name, "talk") == 0) { puts("what a kernel prints"); fflush(stdout); } SAY("function %s\n", name); *function = &functions[(int *)module - modules]; return 0; }
CUresult cuLibraryLoadData(void **loaded, const void *image, void *o, void *v, unsigned n, void *p, void *w, unsigned m) { (void)image; (void)o; (void)v; (void)n; (void)p; (void)w; (void)m; *loaded = &library; return 0; }
CUresult cuLibraryGetKernel(void **found, void *from, const char *name) { (void)from; if (strcmp(name, "vector_add")) return 500; *found = &kernel; return 0; }
CUresult cuLibraryUnload(void *loaded) { (void)loaded; return 0; }
CUresult cuFuncSetAttribute(void *function, int attribute, int value) { (void)function; CALL("cuFuncSetAttribute"); SAY("attribute %d = %d\n", attribute, value); return 0; }

struct attribute { int id; char pad[4]; unsigned value[16]; };
struct config { unsigned grid[3], block[3], shared; void *stream; struct attribute *attributes; unsigned count; };

CUresult cuLaunchKernelEx(const struct config *config, void *function, void **parameters, void **extra) {
    CALL("cuLaunchKernelEx");
    if (!current || (function == &kernel) != (parameters != NULL)) return 1;
    SAY("launch grid %u %u %u block %u %u %u shared %u stream %llu", config->grid[0], config->grid[1], config->grid[2],
        config->block[0], config->block[1], config->block[2], config->shared,
        (unsigned long long)(uintptr_t)config->stream);
    for (unsigned i = 0; i < config->count; i++)
        SAY(" attribute %d: %u %u %u", config->attributes[i].id, config->attributes[i].value[0],
            config->attributes[i].value[1], config->attributes[i].value[2]);
    SAY("\n");
    if (extra) {
        const unsigned char *buffer = NULL;
        size_t size = 0;
        for (; *extra; extra += 2) {
            if (*extra == (void *)1) buffer = extra[1];
            else if (*extra == (void *)2) size = *(size_t *)extra[1];
            else return 1;
        }
        SAY("parameters");
        for (size_t i = 0; i < size; i++) SAY(" %02x", buffer[i]);
        SAY("\n");
        if (size >= 8) {
            unsigned char *target;
            memcpy(&target, buffer, 8);
            if (target) *target += 1;
        }
    }
    return 0;
}
/* For the time of a call alone: bench/launch_time.py. */
CUresult cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz, unsigned shared, void *stream, void **parameters, void **extra) {
    struct config config = { { x, y, z }, { bx, by, bz }, shared, stream, NULL, 0 };
    return cuLaunchKernelEx(&config, function, parameters, extra);
}
CUresult cuStreamSynchronize(void *stream) { CALL("cuStreamSynchronize"); SAY("synchronize %llu\n", (unsigned long long)(uintptr_t)stream); return 0; }
CUresult cuEventCreate(void **event, unsigned flags) { (void)flags; *event = &live; return 0; }
CUresult cuEventRecord(void *event, void *stream) { (void)event; (void)stream; SAY("event\n"); return 0; }
CUresult cuEventSynchronize(void *event) { (void)event; return 0; }
CUresult cuEventElapsedTime(float *time, void *first, void *last) { (void)first; (void)last; *time = 0.25f; return 0; }
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t size, void *stream) { (void)stream; memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, size); return 0; }
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char byte, size_t size, void *stream) { (void)stream; memset((void *)(uintptr_t)to, byte, size); return 0; }
CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t size) {
    CALL("cuMemAlloc_v2");
    if (!size) return 1;
    SAY("allocate %zu\n", size);
    live++;
    *address = (CUdeviceptr)(uintptr_t)malloc(size);
    return 0;
}
CUresult cuMemFree_v2(CUdeviceptr address) { live--; free((void *)(uintptr_t)address); return 0; }
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t size) { CALL("cuMemcpyHtoD_v2"); SAY("to device %zu\n", size); memcpy((void *)(uintptr_t)to, from, size); return 0; }
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t size) { CALL("cuMemcpyDtoH_v2"); SAY("to host %zu\n", size); memcpy(to, (const void *)(uintptr_t)from, size); return 0; }
CUresult cuTensorMapEncodeTiled(void *map, int type, uint32_t rank, void *address, const uint64_t *dims,
                                const uint64_t *strides, const uint32_t *box, const uint32_t *steps, int interleave,
                                int swizzle, int l2, int oob) {
    (void)address;
    CALL("cuTensorMapEncodeTiled");
    if ((uintptr_t)map % 64) return 1;
    SAY("tensor map type %d dims", type);
    for (uint32_t i = 0; i < rank; i++) SAY(" %llu", (unsigned long long)dims[i]);
    SAY(" strides");
    for (uint32_t i = 0; i + 1 < rank; i++) SAY(" %llu", (unsigned long long)strides[i]);
    SAY(" box");
    for (uint32_t i = 0; i < rank; i++) SAY(" %u/%u", box[i], steps[i]);
    SAY(" interleave %d swizzle %d l2 %d oob %d\n", interleave, swizzle, l2, oob);
    memset(map, 0x5a, 128);
    return 0;
}
