// Loads and launches kernels that tileiras has compiled: the run-time side of the headers that it generates.
//
// C++17, header only.  The CUDA driver (libcuda.so.1, nvcuda.dll; CUDA 12 or newer) is opened when it is first needed,
// so that a program neither builds against a toolkit nor fails to start without a GPU.  With `run_on`, kernels that are
// compiled for the processor as well run there, on memory of the host.  Nothing throws: a function that can
// fail returns an Error, which is true after a failure.  Functions may be called from several threads.
#ifndef TILEIRAS_HPP
#define TILEIRAS_HPP

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "tileiras_driver.hpp"

namespace tileiras {

/// The number of tile blocks along x, y and z.
struct Grid {
    unsigned x = 1, y = 1, z = 1;
};

/// A CUstream or cudaStream_t; null is the default stream.
using Stream = void *;

/// A number, or where it is among the parameters: `size` bytes at `offset`, none for the number itself.
struct Operand {
    std::size_t offset, size;
    std::uint64_t number;
};

/// A hidden parameter: a tensor map, made of other parameters by the driver (cuTensorMapEncodeTiled).
struct TensorMap {
    std::size_t offset;                      ///< of the tensor map among the parameters
    int data_type;                           ///< CUtensorMapDataType
    unsigned element_size, rank;             ///< bytes; number of dimensions
    Operand address, dims[5], strides[5];    ///< innermost first, which has no stride; strides in elements
    unsigned box[5], element_strides[5];
    int interleave, swizzle, l2_promotion, oob_fill;  ///< the driver's enumerations
};

/// A word of a fact about a launch: a number, an operation on earlier numbers, or a condition on one.
enum class Word : unsigned char { value, grid, below, add, sub, mul, div, ceildiv, min, max, even, positive };

/// A word of a fact; `value` is of those that are numbers themselves.
struct Term {
    Word word;
    Operand value;
};

struct Image;

/// The code of a kernel for the processor, which the program is linked with.
struct CpuCode {
    std::int32_t (*entry)(const void *parameters, const std::int32_t *grid, std::int64_t first, std::int64_t count,
                          void *scratch);
    Error (*run)(const Image &, Grid, const void *parameters);
    std::size_t scratch;             ///< bytes of memory of a thread
    int level;                       ///< of x86-64: 3 with AVX2, 4 with AVX-512; 0 for other processors
    bool in_order;                   ///< tile blocks run one after the other, since they print
    const char *const *messages;     ///< of assertions
};

/// One compiled form of a kernel and how it has to be launched.
struct Image {
    const char *target;              ///< "sm_90", "sm_90a"
    const char *entry;               ///< the kernel's name in the image
    bool ptx;                        ///< else a cubin
    const unsigned char *data;       ///< PTX ends in a zero, which is not counted; or the fat binary that has the image
    std::size_t size;                ///< bytes
    unsigned block[3];               ///< threads of a CTA
    unsigned cluster[3];             ///< CTAs of a tile block
    bool blocks_are_clusters;        ///< the driver counts the grid in clusters
    unsigned cluster_blocks[3];      ///< tile blocks, of one CTA each, of a cluster where the grid is a multiple of it
    unsigned shared_memory;          ///< bytes of dynamic shared memory
    bool tile_launch;                ///< a block of one thread stands for a tile block
    const TensorMap *tensor_maps;    ///< the hidden parameters
    std::size_t tensor_map_count;
    std::size_t parameter_size;      ///< bytes, the hidden ones included
    const Image *pairs;              ///< launched in its place where the grid is a multiple of its `cluster_blocks`
    const Term *where;               ///< and these facts hold, each with a condition as its last word
    std::size_t where_count;
    const CpuCode *cpu;              ///< for the processor; null for a GPU's image
};

/// Requirements of a launch on one target: threads of a CTA, CTAs of a tile block, bytes of shared memory.
struct Needs {
    const char *target;
    unsigned block[3], cluster[3], shared_memory;
};

/// A kernel with its images; a generated header declares one for each.
struct Kernel {
    const char *name;
    const Image *images;  ///< in the order of the targets
    std::size_t image_count;
    std::size_t parameter_size;  ///< bytes of the parameters that callers name
};

namespace detail {

/// `sm_90a`: 90 and 'a'.
inline std::pair<int, char> parse_target(const char *target) {
    int number = 0;
    const char *at = target + std::strlen("sm_");
    while (*at >= '0' && *at <= '9') number = 10 * number + (*at++ - '0');
    return {number, *at};
}

/// How well an image suits a device of compute capability `device` (90 for 9.0); negative when it does not run there.
///
/// A cubin runs on its own major version from its own minor one on, PTX on that or a newer one; with an `a` both run
/// on that one chip, with an `f` on its family (PTX ISA, ".target").  The nearest is best, and a cubin before PTX.
inline int suitability(const Image &image, int device) {
    const std::pair<int, char> target = parse_target(image.target);
    const int number = target.first;
    if (number > device || (target.second == 'a' && number != device)) return -1;
    if ((!image.ptx || target.second == 'f') && number / 10 != device / 10) return -1;
    const int letter = target.second == 'a' ? 2 : target.second == 'f' ? 1 : 0;
    return 8 * number + 4 * (image.ptx ? 0 : 1) + letter;
}

inline Error capability(int *device) {
    Driver &cuda = driver();
    int handle = 0, major = 0, minor = 0;
    Error error = cuda.check("cuCtxGetDevice", cuda.cuCtxGetDevice(&handle));
    // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR
    if (!error) error = cuda.check("cuDeviceGetAttribute", cuda.cuDeviceGetAttribute(&major, 75, handle));
    if (!error) error = cuda.check("cuDeviceGetAttribute", cuda.cuDeviceGetAttribute(&minor, 76, handle));
    *device = 10 * major + minor;
    return error;
}

inline Error choose(const Kernel &kernel, const Image **chosen) {
    int device = 0;
    if (Error error = capability(&device)) return error;
    int best = -1;
    for (std::size_t n = 0; n < kernel.image_count; n++) {
        if (kernel.images[n].cpu) continue;
        const int found = suitability(kernel.images[n], device);
        if (found > best) {
            best = found;
            *chosen = &kernel.images[n];
        }
    }
    if (best >= 0) return {};
    std::string targets;
    for (std::size_t n = 0; n < kernel.image_count; n++)
        targets += std::string(n ? ", " : "") + kernel.images[n].target + (kernel.images[n].ptx ? " PTX" : "");
    return {no_image, std::string(kernel.name) + " has no image for a device of compute capability " +
                          std::to_string(device / 10) + "." + std::to_string(device % 10) + ", only " + targets};
}

/// The function of an image in a context, loaded once; PTX is compiled by the driver.
inline Error function_of(const Image &image, void *context, void **function) {
    Driver &cuda = driver();
    const std::lock_guard<std::mutex> lock(cuda.mutex);
    void *&known = cuda.functions[{context, &image}];
    if (!known) {
        void *&module = cuda.modules[{context, image.data}];
        Error error;
        if (!module) {
            char log[8192] = "";
            // CU_JIT_ERROR_LOG_BUFFER and _SIZE_BYTES; values are passed in the pointers themselves.
            int options[] = {5, 6};
            void *values[] = {log, reinterpret_cast<void *>(sizeof log)};
            error = cuda.check("cuModuleLoadDataEx", cuda.cuModuleLoadDataEx(&module, image.data, 2, options, values));
            if (error) {
                module = nullptr;
                if (log[0]) error.text += std::string("\n") + log;
                return error;
            }
        }
        void *made = nullptr;
        if ((error = cuda.check("cuModuleGetFunction", cuda.cuModuleGetFunction(&made, module, image.entry)))) return error;
        if (image.shared_memory > 48 * 1024 && !image.tile_launch) {
            // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            error = cuda.check("cuFuncSetAttribute", cuda.cuFuncSetAttribute(made, 8, static_cast<int>(image.shared_memory)));
            if (error) return error;
        }
        if (image.cluster[0] * image.cluster[1] * image.cluster[2] > 8) {
            // CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
            if ((error = cuda.check("cuFuncSetAttribute", cuda.cuFuncSetAttribute(made, 14, 1)))) return error;
        }
        known = made;
    }
    *function = known;
    return {};
}

/// Whether a grid is made of clusters of more than one tile block.
inline bool is_multiple(const unsigned *grid, const unsigned *blocks) {
    if (blocks[0] * blocks[1] * blocks[2] == 1) return false;
    return grid[0] % blocks[0] == 0 && grid[1] % blocks[1] == 0 && grid[2] % blocks[2] == 0;
}

/// Puts an argument at its offset among the parameters.
template <class T> void put(unsigned char *parameters, std::size_t offset, T value) {
    std::memcpy(parameters + offset, &value, sizeof value);
}

/// The value of an operand; signed where it is narrower than a pointer, as indices are.
inline std::uint64_t value_of(const Operand &operand, const unsigned char *parameters) {
    if (operand.size == 0) return operand.number;
    std::uint64_t bits = 0;
    std::memcpy(&bits, parameters + operand.offset, operand.size);
    const unsigned shift = 64 - 8 * static_cast<unsigned>(operand.size);
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(bits << shift) >> shift);
}

/// The least and the largest number that a word can stand for.
struct Interval {
    std::int64_t least, most;
};

inline bool is_known(const Interval &of) { return INT32_MIN <= of.least && of.least <= of.most && of.most <= INT32_MAX; }

/// The result of a word for two numbers, within 32 bits each; unknown where it may not divide them.
inline Interval combined(Word word, const Interval &a, const Interval &b) {
    const auto least = [](std::int64_t x, std::int64_t y) { return x < y ? x : y; };
    const auto most = [](std::int64_t x, std::int64_t y) { return x < y ? y : x; };
    const auto up = [](std::int64_t x, std::int64_t y) { return x / y + (x % y != 0); };
    switch (word) {
    case Word::add: return {a.least + b.least, a.most + b.most};
    case Word::sub: return {a.least - b.most, a.most - b.least};
    case Word::min: return {least(a.least, b.least), least(a.most, b.most)};
    case Word::max: return {most(a.least, b.least), most(a.most, b.most)};
    case Word::mul: {
        const std::int64_t p = a.least * b.least, q = a.least * b.most, r = a.most * b.least, s = a.most * b.most;
        return {least(least(p, q), least(r, s)), most(most(p, q), most(r, s))};
    }
    default: break;
    }
    if (a.least < 0 || b.least < 1) return {1, 0};
    if (word == Word::div) return {a.least / b.most, a.most / b.least};
    return {up(a.least, b.most), up(a.most, b.least)};
}

/// Whether a launch has the facts that an image asks for.  A number that may not fit 32 bits, in which kernels compute,
/// says nothing.
inline bool has_facts(const Image &image, unsigned grid, const unsigned char *parameters) {
    Interval stack[16] = {};
    std::size_t count = 0;
    for (std::size_t n = 0; n < image.where_count; n++) {
        const Term &term = image.where[n];
        Interval found = {grid, grid};
        if (term.word == Word::even || term.word == Word::positive) {
            const Interval &last = stack[--count];
            const bool is_even = last.least == last.most && last.least % 2 == 0;
            if (!(term.word == Word::even ? is_even : last.least > 0)) return false;
            continue;
        } else if (term.word == Word::value) {
            found.least = found.most = static_cast<std::int64_t>(value_of(term.value, parameters));
        } else if (term.word == Word::below) {
            found = {0, stack[--count].most - 1};
        } else if (term.word != Word::grid) {
            count -= 2;
            found = combined(term.word, stack[count], stack[count + 1]);
        }
        if (!is_known(found)) return false;
        stack[count++] = found;
    }
    return true;
}

/// Has the driver write a tensor map among the parameters.
inline Error fill(const TensorMap &map, unsigned char *parameters) {
    Driver &cuda = driver();
    if (!cuda.cuTensorMapEncodeTiled)
        return {no_driver, "the CUDA driver has no cuTensorMapEncodeTiled: CUDA 12 or newer is needed"};
    std::uint64_t dims[5] = {}, strides[5] = {};
    for (unsigned n = 0; n < map.rank; n++) {
        dims[n] = value_of(map.dims[n], parameters);
        if (dims[n] == 0) dims[n] = 1;  // the kernel only accesses elements after the first one
    }
    for (unsigned n = 0; n + 1 < map.rank; n++) {
        strides[n] = value_of(map.strides[n], parameters) * map.element_size;
        // The driver takes multiples of 16 only; no element lies a stride away in a dimension of one.
        if (dims[n + 1] == 1) strides[n] = (strides[n] + 15) / 16 * 16;
    }
    void *address = reinterpret_cast<void *>(static_cast<std::uintptr_t>(value_of(map.address, parameters)));
    alignas(128) unsigned char made[128];
    Error error = cuda.check("cuTensorMapEncodeTiled",
                             cuda.cuTensorMapEncodeTiled(made, map.data_type, map.rank, address, dims, strides, map.box,
                                                         map.element_strides, map.interleave, map.swizzle,
                                                         map.l2_promotion, map.oob_fill));
    if (!error) std::memcpy(parameters + map.offset, made, sizeof made);
    return error;
}

}  // namespace detail

/// Where kernels run.
enum class Place { gpu, cpu, gpu_or_cpu };

namespace detail {

inline std::atomic<Place> &chosen_place() {
    static std::atomic<Place> place{Place::gpu};
    return place;
}

inline bool is_on_cpu() {
    const Place place = chosen_place();
    return place == Place::cpu || (place == Place::gpu_or_cpu && driver().error);
}

/// Runs a kernel on the processor, and waits for it.
inline Error launch_on_cpu(const Kernel &kernel, Grid grid, const void *parameters) {
    for (std::size_t n = 0; n < kernel.image_count; n++)
        if (kernel.images[n].cpu) return kernel.images[n].cpu->run(kernel.images[n], grid, parameters);
    return {no_image, std::string(kernel.name) + " has no code for the processor"};
}

}  // namespace detail

/// Has kernels run on the processor, or there where no GPU is (`Place::gpu_or_cpu`), if they are compiled for it; by
/// default they run on the GPU.  To be called before memory is allocated.
inline void run_on(Place place) { detail::chosen_place() = place; }

/// Nothing when kernels can be launched here, else why not.
inline Error available() { return detail::is_on_cpu() ? Error{} : detail::driver().error; }

/// Launches a kernel with its parameters packed; called by the generated functions.
inline Error launch(const Kernel &kernel, Grid grid, Stream stream, const void *parameters) {
    const bool is_empty = !grid.x || !grid.y || !grid.z;
    if (!is_empty && detail::is_on_cpu()) return detail::launch_on_cpu(kernel, grid, parameters);
    if (Error error = available()) return error;
    if (is_empty)
        return {bad_argument, std::string(kernel.name) + ": a grid has at least one tile block in each direction"};
    detail::Driver &cuda = detail::driver();
    detail::Context context;
    if (context.error) return context.error;
    const Image *image = nullptr;
    if (Error error = detail::choose(kernel, &image)) return error;
    const unsigned blocks[3] = {grid.x, grid.y, grid.z};
    if (image->pairs && detail::is_multiple(blocks, image->pairs->cluster_blocks) &&
        detail::has_facts(*image->pairs, grid.x, static_cast<const unsigned char *>(parameters)))
        image = image->pairs;
    void *function = nullptr;
    if (Error error = detail::function_of(*image, context.handle, &function)) return error;
    detail::LaunchConfig config = {{grid.x, grid.y, grid.z},
                                   {image->block[0], image->block[1], image->block[2]},
                                   image->shared_memory,
                                   stream,
                                   nullptr,
                                   0};
    detail::LaunchAttribute attribute = {};
    const unsigned *cluster = image->cluster;
    if (image->tile_launch) {
        config.block[0] = config.block[1] = config.block[2] = 1;
        config.shared_memory = 0;
    } else if (cluster[0] * cluster[1] * cluster[2] != 1 && !image->blocks_are_clusters) {
        attribute.id = 4;  // CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        for (int n = 0; n < 3; n++) {
            attribute.value[n] = cluster[n];
            config.grid[n] *= cluster[n];
        }
        config.attributes = &attribute;
        config.attribute_count = 1;
    } else if (detail::is_multiple(config.grid, image->cluster_blocks)) {
        attribute.id = 4;
        for (int n = 0; n < 3; n++) attribute.value[n] = image->cluster_blocks[n];
        config.attributes = &attribute;
        config.attribute_count = 1;
    }
    std::size_t size = kernel.parameter_size;
    std::vector<unsigned char> all;
    if (image->tensor_map_count) {
        const unsigned char *given = static_cast<const unsigned char *>(parameters);
        all.assign(given, given + size);
        all.resize(size = image->parameter_size);
        for (std::size_t n = 0; n < image->tensor_map_count; n++)
            if (Error error = detail::fill(image->tensor_maps[n], all.data())) return error;
        parameters = all.data();
    }
    // CU_LAUNCH_PARAM_BUFFER_POINTER, _BUFFER_SIZE and _END
    void *extra[] = {reinterpret_cast<void *>(1), const_cast<void *>(parameters), reinterpret_cast<void *>(2), &size, nullptr};
    return cuda.check("cuLaunchKernelEx", cuda.cuLaunchKernelEx(&config, function, nullptr, size ? extra : nullptr));
}

/// Waits for a stream; failures of running kernels are reported here.
inline Error synchronize(Stream stream = nullptr) {
    if (detail::is_on_cpu()) return {};
    detail::Context context;
    if (context.error) return context.error;
    return detail::driver().check("cuStreamSynchronize", detail::driver().cuStreamSynchronize(stream));
}

/// Memory for `count` values where kernels run, for programs that have no other way to get any.
template <class T> class Buffer {
public:
    /// `count` uninitialized elements; `error` gives the reason if allocation fails.
    explicit Buffer(std::size_t count) : count_(count), on_host_(detail::is_on_cpu()) {
        if (on_host_) {
            void *made = ::operator new((count ? count : 1) * sizeof(T), std::align_val_t(64), std::nothrow);
            if (!made) error = {bad_argument, "there is no memory for " + std::to_string(count) + " values"};
            address_ = reinterpret_cast<std::uintptr_t>(made);
            return;
        }
        detail::Context context;
        error = context.error;
        if (error) return;
        std::uint64_t address = 0;
        error = detail::driver().check("cuMemAlloc", detail::driver().cuMemAlloc_v2(&address, count ? count * sizeof(T) : 1));
        address_ = address;
    }
    Buffer(const Buffer &) = delete;
    Buffer &operator=(const Buffer &) = delete;
    ~Buffer() {
        if (on_host_) {
            ::operator delete(reinterpret_cast<void *>(static_cast<std::uintptr_t>(address_)), std::align_val_t(64));
            return;
        }
        detail::Context context;
        if (address_ && !context.error) detail::driver().cuMemFree_v2(address_);
    }
    /// The address for the generated functions; not to be read or written here, unless kernels run on the processor.
    T *device() const { return reinterpret_cast<T *>(static_cast<std::uintptr_t>(address_)); }
    /// Copies `count` elements from memory of the host; returns when they are there.
    Error from_host(const T *values) {
        if (on_host_) return copied(device(), values);
        return copy([&](detail::Driver &cuda) {
            return cuda.check("cuMemcpyHtoD", cuda.cuMemcpyHtoD_v2(address_, values, count_ * sizeof(T)));
        });
    }
    /// Copies `count` elements to memory of the host, behind the work of the default stream.
    Error to_host(T *values) const {
        if (on_host_) return copied(values, device());
        return copy([&](detail::Driver &cuda) {
            return cuda.check("cuMemcpyDtoH", cuda.cuMemcpyDtoH_v2(values, address_, count_ * sizeof(T)));
        });
    }
    Error error;  ///< why there is no memory

private:
    Error copied(T *to, const T *from) const {
        if (!error && count_) std::memcpy(to, from, count_ * sizeof(T));
        return error;
    }
    template <class Function> Error copy(Function function) const {
        if (error) return error;
        detail::Context context;
        return context.error ? context.error : function(detail::driver());
    }
    std::size_t count_;
    bool on_host_;
    std::uint64_t address_ = 0;
};

}  // namespace tileiras

#endif
