// Two kernels in a C++ program: y = a * x + y, and max(x + y, 0) over a matrix with ragged edges.
//
// Both are run and checked: on the GPU, on a machine without one on the processor (`run_on`).
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

#include "kernels.h"

namespace {

/// Prints an error; whether there was one.
bool failed(const tileiras::Error &error) {
    if (error) std::fprintf(stderr, "%s\n", error.text.c_str());
    return static_cast<bool>(error);
}

bool differ(const char *what, const std::vector<float> &found, const std::vector<float> &expected) {
    for (std::size_t n = 0; n < found.size(); n++) {
        if (std::fabs(found[n] - expected[n]) > 1e-6f * std::fabs(expected[n])) {
            std::fprintf(stderr, "%s: element %zu is %g, not %g\n", what, n, found[n], expected[n]);
            return true;
        }
    }
    std::printf("%s: %zu elements are right\n", what, found.size());
    return false;
}

int saxpy() {
    const int n = 5000;  // no multiple of the tile's 1024
    std::vector<float> x(n), y(n), expected(n);
    for (int i = 0; i < n; i++) {
        x[i] = static_cast<float>(i % 17);
        y[i] = static_cast<float>(i % 5);
        expected[i] = 2.0f * x[i] + y[i];
    }
    tileiras::Buffer<float> dx(n), dy(n);
    if (failed(dx.from_host(x.data())) || failed(dy.from_host(y.data()))) return 1;
    if (failed(kernels::saxpy(dx.device(), dy.device(), 2.0f, n, {(n + 1023) / 1024}))) return 1;
    if (failed(tileiras::synchronize()) || failed(dy.to_host(y.data()))) return 1;
    return differ("saxpy", y, expected);
}

int relu_add() {
    const int rows = 50, columns = 100, pitch = 100;
    const std::size_t size = static_cast<std::size_t>(rows) * pitch;
    std::vector<float> x(size), y(size), out(size), expected(size);
    for (std::size_t i = 0; i < size; i++) {
        x[i] = static_cast<float>(i % 13);
        y[i] = -static_cast<float>(i % 7);
        expected[i] = std::max(x[i] + y[i], 0.0f);
    }
    tileiras::Buffer<float> dx(size), dy(size), dout(size);
    if (failed(dx.from_host(x.data())) || failed(dy.from_host(y.data()))) return 1;
    const tileiras::Grid grid = {(rows + 31) / 32, (columns + 63) / 64};
    if (failed(kernels::relu_add_2d(dx.device(), dy.device(), dout.device(), rows, columns, pitch, grid))) return 1;
    if (failed(tileiras::synchronize()) || failed(dout.to_host(out.data()))) return 1;
    return differ("relu_add_2d", out, expected);
}

template <std::size_t count> void list(const tileiras::Kernel &kernel, const tileiras::Needs (&needs)[count]) {
    for (std::size_t n = 0; n < kernel.image_count; n++) {
        const tileiras::Image &image = kernel.images[n];
        std::printf("%s: %s %s, %zu bytes\n", kernel.name, image.target, image.cpu ? "object" : image.ptx ? "PTX" : "cubin", image.size);
    }
    for (const tileiras::Needs &need : needs)
        std::printf("  on %s: %u threads, %u bytes of shared memory\n", need.target, need.block[0], need.shared_memory);
}

}  // namespace

int main(int count, char **arguments) {
    if (count > 1 && std::strcmp(arguments[1], "--list") == 0) {
        list(kernels::saxpy_kernel, kernels::saxpy_needs);
        list(kernels::relu_add_2d_kernel, kernels::relu_add_2d_needs);
        return 0;
    }
    tileiras::run_on(tileiras::Place::gpu_or_cpu);
    if (const tileiras::Error error = tileiras::available()) {
        std::printf("nothing is computed here: %s\n", error.text.c_str());
        return 0;
    }
    return saxpy() || relu_add();
}
