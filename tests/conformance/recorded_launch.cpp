// A CUDA runtime without a device, for host code that is to prepare a launch: device memory is the host's, at fixed
// addresses, and the first launch of an entry that PARAMETERS lists is written to the file LAUNCH instead of being done,
// with the memory at that moment; then the process ends.  Other launches, which fill new memory, do nothing: memory is
// zero.
//
//   PARAMETERS  a line for an entry: name, then the bytes of each parameter
//   LAUNCH      lines of a word and its values, in the order of what happened:
//                 memory ADDRESS HEX          map NUMBER FIELDS...     entry NAME
//                 grid X Y Z  block X Y Z  cluster X Y Z  shared BYTES  parameter HEX
//
// A tensor map is 16 bytes that are no map, its number, and zeros: whoever reads the file encodes it from its fields.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace {

constexpr unsigned long long kFirst = 1ull << 44, kSpacing = 1ull << 32;
const unsigned char kMark[16] = {0x4e, 0x6f, 0x20, 0x6d, 0x61, 0x70, 0x3a, 0x9d, 0xe1, 0x07, 0x5b, 0xc4, 0x33, 0xa8, 0xf6, 0x12};

// Entries register before this file's own variables would be initialised.
std::map<const void*, std::string>& names() {
  static std::map<const void*, std::string> made;
  return made;
}
std::vector<std::pair<unsigned char*, size_t>> allocations;
std::ostringstream maps;
int map_count = 0;
struct { dim3 grid, block; size_t shared; cudaStream_t stream; } pushed;

void hex(FILE* file, const unsigned char* data, size_t size) {
  for (size_t at = 0; at < size; ++at) fprintf(file, "%02x", data[at]);
  fputc('\n', file);
}

std::vector<size_t> parameter_sizes(const std::string& name) {
  std::vector<size_t> sizes;
  FILE* file = fopen(getenv("PARAMETERS"), "r");
  char* line = nullptr;
  size_t room = 0;
  while (file && getline(&line, &room, file) > 0) {
    std::istringstream words(line);
    std::string entry;
    words >> entry;
    if (entry != name) continue;
    for (size_t size; words >> size;) sizes.push_back(size);
  }
  if (file) fclose(file);
  free(line);
  return sizes;
}

cudaError_t record(const void* function, dim3 grid, dim3 block, dim3 cluster, void** arguments, size_t shared) {
  auto sizes = parameter_sizes(names()[function]);
  if (sizes.empty()) return cudaSuccess;
  FILE* file = fopen(getenv("LAUNCH"), "w");
  if (!file) abort();
  for (auto& [address, size] : allocations) {
    fprintf(file, "memory %llu ", (unsigned long long)address);
    hex(file, address, size);
  }
  fputs(maps.str().c_str(), file);
  fprintf(file, "entry %s\ngrid %u %u %u\nblock %u %u %u\ncluster %u %u %u\nshared %zu\n", names()[function].c_str(),
          grid.x, grid.y, grid.z, block.x, block.y, block.z, cluster.x, cluster.y, cluster.z, shared);
  for (size_t number = 0; number < sizes.size(); ++number) {
    fputs("parameter ", file);
    hex(file, static_cast<unsigned char*>(arguments[number]), sizes[number]);
  }
  fclose(file);
  _Exit(0);
}

CUresult encode_tiled(CUtensorMap* made, CUtensorMapDataType type, cuuint32_t rank, void* address, const cuuint64_t* dims,
                      const cuuint64_t* strides, const cuuint32_t* box, const cuuint32_t* element_strides,
                      CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion,
                      CUtensorMapFloatOOBfill fill) {
  memset(made, 0, sizeof *made);
  memcpy(made, kMark, sizeof kMark);
  memcpy(reinterpret_cast<char*>(made) + sizeof kMark, &map_count, sizeof map_count);
  maps << "map " << map_count++ << " " << type << " " << interleave << " " << swizzle << " " << fill << " "
       << (unsigned long long)address << " " << rank;
  for (unsigned n = 0; n < rank; ++n) maps << " " << dims[n];
  for (unsigned n = 0; n + 1 < rank; ++n) maps << " " << strides[n];
  for (unsigned n = 0; n < rank; ++n) maps << " " << box[n];
  for (unsigned n = 0; n < rank; ++n) maps << " " << element_strides[n];
  maps << "\n";
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

// What nvcc's host code calls without declaring it to others.
void** __cudaRegisterFatBinary(void*) { static void* handle; return &handle; }
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}
void __cudaRegisterFunction(void**, const char* function, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*, int*) {
  names()[function] = name;
}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream) {
  pushed = {grid, block, shared, stream};
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  *grid = pushed.grid, *block = pushed.block, *shared = pushed.shared;
  *static_cast<cudaStream_t*>(stream) = pushed.stream;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = (cudaKernel_t)function;
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t) {
  return record((const void*)kernel, grid, block, dim3(1), arguments, shared);
}

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t) {
  return record(function, grid, block, dim3(1), arguments, shared);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void** arguments) {
  dim3 cluster(1);
  for (unsigned n = 0; n < config->numAttrs; ++n)
    if (config->attrs[n].id == cudaLaunchAttributeClusterDimension) {
      auto& given = config->attrs[n].val.clusterDim;
      cluster = dim3(given.x, given.y, given.z);
    }
  return record(function, config->gridDim, config->blockDim, cluster, arguments, config->dynamicSmemBytes);
}

cudaError_t cudaMalloc(void** address, size_t size) {
  void* wanted = (void*)(kFirst + kSpacing * allocations.size());
  *address = mmap(wanted, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (*address != wanted) return cudaErrorMemoryAllocation;
  allocations.emplace_back(static_cast<unsigned char*>(*address), size);
  return cudaSuccess;
}
cudaError_t cudaFree(void*) { return cudaSuccess; }
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t size, cudaMemcpyKind, cudaStream_t) {
  memmove(to, from, size);
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t size, cudaMemcpyKind) {
  memmove(to, from, size);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t size, cudaStream_t) {
  memset(to, value, size);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* available, size_t* total) { *available = *total = 1ull << 33; return cudaSuccess; }

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  memset(properties, 0, sizeof *properties);
  int target = atoi(getenv("TARGET"));
  properties->major = target / 10, properties->minor = target % 10;
  properties->multiProcessorCount = 132;
  properties->sharedMemPerBlockOptin = properties->sharedMemPerMultiprocessor = 227 << 10;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  int target = atoi(getenv("TARGET"));
  *value = attribute == cudaDevAttrComputeCapabilityMajor ? target / 10
         : attribute == cudaDevAttrComputeCapabilityMinor ? target % 10
         : attribute == cudaDevAttrMultiProcessorCount ? 132 : 0;
  return cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  memset(attributes, 0, sizeof *attributes);
  attributes->maxThreadsPerBlock = 1024;
  attributes->ptxVersion = attributes->binaryVersion = atoi(getenv("TARGET"));
  return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** found, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  bool known = !strcmp(name, "cuTensorMapEncodeTiled");
  *found = known ? (void*)encode_tiled : nullptr;
  if (result) *result = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return known ? cudaSuccess : cudaErrorSymbolNotFound;
}
cudaError_t cudaDriverGetVersion(int* version) { *version = 13020; return cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int* version) { *version = CUDART_VERSION; return cudaSuccess; }
cudaError_t cudaGetDevice(int* device) { *device = 0; return cudaSuccess; }
cudaError_t cudaGetDeviceCount(int* count) { *count = 1; return cudaSuccess; }
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaEventCreate(cudaEvent_t* event) { *event = nullptr; return cudaSuccess; }
cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventElapsedTime(float* time, cudaEvent_t, cudaEvent_t) { *time = 1; return cudaSuccess; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaPeekAtLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t) { return "an error of the recording runtime"; }
const char* cudaGetErrorName(cudaError_t) { return "error"; }

}  // extern "C"
