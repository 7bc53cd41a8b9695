// Two kernels in a C++ program that CMake or Meson builds: lists their images, and runs one where there is a GPU.
#include <cstdio>
#include <vector>

#include "relu_add_2d.h"
#include "saxpy.h"

static void list(const tileiras::Kernel &kernel) {
    for (std::size_t n = 0; n < kernel.image_count; n++)
        std::printf("%s: %s %s\n", kernel.name, kernel.images[n].target, kernel.images[n].ptx ? "PTX" : "cubin");
}

int main() {
    list(kernels::saxpy_kernel);
    list(kernels::relu_add_2d_kernel);
    if (const tileiras::Error error = tileiras::available()) {
        std::printf("nothing is computed here: %s\n", error.text.c_str());
        return 0;
    }
    std::vector<float> x(3000, 1.0f), y(3000, 1.0f);
    tileiras::Buffer<float> dx(x.size()), dy(y.size());
    tileiras::Error error = dx.from_host(x.data());
    if (!error) error = dy.from_host(y.data());
    if (!error) error = kernels::saxpy(dx.device(), dy.device(), 2.0f, 3000, {3});
    if (!error) error = dy.to_host(y.data());
    if (!error && y[2999] != 3.0f) error = {1, "the last element is not 2 * 1 + 1"};
    std::printf("%s\n", error ? error.text.c_str() : "saxpy is right");
    return error ? 1 : 0;
}
