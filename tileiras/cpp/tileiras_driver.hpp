// The CUDA driver, opened when it is first needed, and the context of a thread: for `tileiras.hpp`.
#ifndef TILEIRAS_DRIVER_HPP
#define TILEIRAS_DRIVER_HPP

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#ifdef _WIN32
extern "C" __declspec(dllimport) void *__stdcall LoadLibraryA(const char *);
extern "C" __declspec(dllimport) void *__stdcall GetProcAddress(void *, const char *);
#else
#include <dlfcn.h>
#endif

namespace tileiras {

/// A compiled kernel (`tileiras.hpp`).
struct Image;

/// Numbers of errors that are not the driver's: those are positive, as cuda.h has them.
enum ErrorCode : int { success = 0, no_driver = -1, no_device = -2, no_image = -3, bad_argument = -4, kernel_failed = -5 };

/// A failure: `code` is an ErrorCode or the driver's CUresult, `text` gives the call and the reason.
struct Error {
    int code = success;
    std::string text;
    explicit operator bool() const { return code != success; }
};

namespace detail {

struct LaunchAttribute {  // CUlaunchAttribute: an id, padding to 8 bytes, and a union of 64 bytes
    int id;
    int padding;
    unsigned value[16];
};

struct LaunchConfig {  // CUlaunchConfig
    unsigned grid[3], block[3], shared_memory;
    void *stream;
    LaunchAttribute *attributes;
    unsigned attribute_count;
};

/// The driver's entry points; those with a second version have it in their names, as the macros of cuda.h do.
struct Driver {
    int (*cuInit)(unsigned);
    int (*cuGetErrorName)(int, const char **);
    int (*cuGetErrorString)(int, const char **);
    int (*cuDeviceGetCount)(int *);
    int (*cuDeviceGet)(int *, int);
    int (*cuDeviceGetName)(char *, int, int);
    int (*cuDeviceGetAttribute)(int *, int, int);
    int (*cuDevicePrimaryCtxRetain)(void **, int);
    int (*cuCtxGetCurrent)(void **);
    int (*cuCtxGetDevice)(int *);
    int (*cuCtxPushCurrent_v2)(void *);
    int (*cuCtxPopCurrent_v2)(void **);
    int (*cuModuleLoadDataEx)(void **, const void *, unsigned, int *, void **);
    int (*cuModuleGetFunction)(void **, void *, const char *);
    int (*cuFuncSetAttribute)(void *, int, int);
    int (*cuLaunchKernelEx)(const LaunchConfig *, void *, void **, void **);
    int (*cuStreamSynchronize)(void *);
    int (*cuMemAlloc_v2)(std::uint64_t *, std::size_t);
    int (*cuMemFree_v2)(std::uint64_t);
    int (*cuMemcpyHtoD_v2)(std::uint64_t, const void *, std::size_t);
    int (*cuMemcpyDtoH_v2)(void *, std::uint64_t, std::size_t);
    /// Only for kernels with tensor maps: null in drivers without them.
    int (*cuTensorMapEncodeTiled)(void *, int, unsigned, void *, const std::uint64_t *, const std::uint64_t *,
                                  const unsigned *, const unsigned *, int, int, int, int) = nullptr;

    Error error;  ///< why the driver cannot be used
    void *primary = nullptr;
    std::mutex mutex;
    std::map<std::pair<void *, const Image *>, void *> functions;
    std::map<std::pair<void *, const unsigned char *>, void *> modules;  ///< by the bytes of images, which some share

    Driver() {
        load();
        if (!error) error = check("cuInit", cuInit(0));
        int count = 0;
        if (!error) error = check("cuDeviceGetCount", cuDeviceGetCount(&count));
        if (!error && count == 0) error = {no_device, "the CUDA driver has no device"};
    }

    /// The Error of a call's result.
    Error check(const char *call, int result) const {
        if (result == 0) return {};
        const char *name = nullptr, *text = nullptr;
        std::string said = std::string(call) + ": ";
        if (cuGetErrorName(result, &name) == 0 && cuGetErrorString(result, &text) == 0)
            return {result, said + name + " (" + std::to_string(result) + "): " + text};
        return {result, said + "CUDA error " + std::to_string(result)};
    }

    void load() {
#ifdef _WIN32
        void *library = LoadLibraryA("nvcuda.dll");
        const auto find = [&](const char *name) { return GetProcAddress(library, name); };
#else
        void *library = dlopen("libcuda.so.1", RTLD_NOW);
        const auto find = [&](const char *name) { return dlsym(library, name); };
#endif
        if (!library) {
            error = {no_driver, "there is no CUDA driver here"};
            return;
        }
#define TILEIRAS_FIND(name)                                                                     \
    do {                                                                                        \
        void *found = reinterpret_cast<void *>(find(#name));                                    \
        if (!found) {                                                                           \
            error = {no_driver, "the CUDA driver has no " #name ": CUDA 12 or newer is needed"}; \
            return;                                                                             \
        }                                                                                       \
        std::memcpy(&name, &found, sizeof found);                                               \
    } while (0)
        TILEIRAS_FIND(cuInit);
        TILEIRAS_FIND(cuGetErrorName);
        TILEIRAS_FIND(cuGetErrorString);
        TILEIRAS_FIND(cuDeviceGetCount);
        TILEIRAS_FIND(cuDeviceGet);
        TILEIRAS_FIND(cuDeviceGetName);
        TILEIRAS_FIND(cuDeviceGetAttribute);
        TILEIRAS_FIND(cuDevicePrimaryCtxRetain);
        TILEIRAS_FIND(cuCtxGetCurrent);
        TILEIRAS_FIND(cuCtxGetDevice);
        TILEIRAS_FIND(cuCtxPushCurrent_v2);
        TILEIRAS_FIND(cuCtxPopCurrent_v2);
        TILEIRAS_FIND(cuModuleLoadDataEx);
        TILEIRAS_FIND(cuModuleGetFunction);
        TILEIRAS_FIND(cuFuncSetAttribute);
        TILEIRAS_FIND(cuLaunchKernelEx);
        TILEIRAS_FIND(cuStreamSynchronize);
        TILEIRAS_FIND(cuMemAlloc_v2);
        TILEIRAS_FIND(cuMemFree_v2);
        TILEIRAS_FIND(cuMemcpyHtoD_v2);
        TILEIRAS_FIND(cuMemcpyDtoH_v2);
        void *encode = reinterpret_cast<void *>(find("cuTensorMapEncodeTiled"));
        std::memcpy(&cuTensorMapEncodeTiled, &encode, sizeof encode);
#undef TILEIRAS_FIND
    }
};

inline Driver &driver() {
    static Driver loaded;
    return loaded;
}

/// The thread's context, or for its life the primary one of device 0 if it has no context.
class Context {
public:
    Context() {
        Driver &cuda = driver();
        error = cuda.error;
        if (error) return;
        if ((error = cuda.check("cuCtxGetCurrent", cuda.cuCtxGetCurrent(&handle))) || handle) return;
        {
            const std::lock_guard<std::mutex> lock(cuda.mutex);
            int device = 0;
            if (!cuda.primary && !(error = cuda.check("cuDeviceGet", cuda.cuDeviceGet(&device, 0))))
                error = cuda.check("cuDevicePrimaryCtxRetain", cuda.cuDevicePrimaryCtxRetain(&cuda.primary, device));
            handle = cuda.primary;
        }
        if (!error) error = cuda.check("cuCtxPushCurrent", cuda.cuCtxPushCurrent_v2(handle));
        pushed = !error;
    }
    Context(const Context &) = delete;
    Context &operator=(const Context &) = delete;
    ~Context() {
        void *popped;
        if (pushed) driver().cuCtxPopCurrent_v2(&popped);
    }
    Error error;
    void *handle = nullptr;

private:
    bool pushed = false;
};

}  // namespace detail
}  // namespace tileiras

#endif
