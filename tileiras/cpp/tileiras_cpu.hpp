// Runs kernels that tileiras has compiled for the processor: included by sources with such kernels, which are linked
// with the system's threads.
#ifndef TILEIRAS_CPU_HPP
#define TILEIRAS_CPU_HPP

#include <cstdlib>
#include <thread>

#include "tileiras.hpp"

namespace tileiras {
namespace detail {

/// Whether the processor has the features of a level of x86-64; other code runs on every processor of its kind.
inline bool has_level(int level) {
#if defined(__x86_64__) && defined(__GNUC__)
    __builtin_cpu_init();
    const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi");
    const bool v4 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                    __builtin_cpu_supports("avx512vl");
    return level < 3 || (v3 && (level < 4 || v4));
#else
    return level == 0;
#endif
}

/// Threads of a launch: TILEIRAS_CPU_THREADS, or the processors.
inline unsigned thread_count() {
    const char *text = std::getenv("TILEIRAS_CPU_THREADS");
    const unsigned long asked = text ? std::strtoul(text, nullptr, 10) : std::thread::hardware_concurrency();
    return asked ? static_cast<unsigned>(asked) : 1;
}

/// Runs all tile blocks and returns when they are done: threads take ranges in ascending order, so that a tile block
/// that waits for an earlier one makes progress.
inline Error run_on_cpu(const Image &image, Grid grid, const void *parameters) {
    const CpuCode &code = *image.cpu;
    if (!has_level(code.level))
        return {no_image, std::string(image.entry) + ": this processor lacks instructions of " + image.target};
    const std::int32_t sizes[3] = {static_cast<std::int32_t>(grid.x), static_cast<std::int32_t>(grid.y),
                                   static_cast<std::int32_t>(grid.z)};
    const std::int64_t blocks = static_cast<std::int64_t>(grid.x) * grid.y * grid.z;
    std::int64_t workers = code.in_order ? 1 : thread_count();
    if (workers > blocks) workers = blocks;
    std::mutex mutex;
    std::int64_t next = 0;
    std::int32_t failed = 0;
    const auto work = [&] {
        std::vector<unsigned char> memory(code.scratch + 64);
        const std::uintptr_t start = (reinterpret_cast<std::uintptr_t>(memory.data()) + 63) & ~std::uintptr_t(63);
        for (;;) {
            std::int64_t first = 0, count = 0;
            {
                const std::lock_guard<std::mutex> lock(mutex);
                const std::int64_t left = blocks - next;
                // Ranges are short towards the end only, where threads would wait for the last one.
                if (!failed) count = workers > 1 ? (left + 2 * workers - 1) / (2 * workers) : left;
                first = next;
                next += count;
            }
            if (!count) return;
            const std::int32_t status = code.entry(parameters, sizes, first, count, reinterpret_cast<void *>(start));
            if (!status) continue;
            const std::lock_guard<std::mutex> lock(mutex);
            if (!failed) failed = status;
        }
    };
    std::vector<std::thread> others;
    for (std::int64_t n = 1; n < workers; n++) others.emplace_back(work);
    work();
    for (std::thread &other : others) other.join();
    if (!failed) return {};
    return {kernel_failed, std::string(image.entry) + ": assertion failed: " + code.messages[failed - 1]};
}

}  // namespace detail
}  // namespace tileiras

#endif
