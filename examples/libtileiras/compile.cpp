// compile IN GPU OUT: one Tile IR file to a cubin, in this process; messages are collected and printed at the end.
#include <tileiras.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <type_traits>

namespace {

struct Release {
    void operator()(tileirasProgram program) const { tileirasProgramRelease(program); }
};
using Program = std::unique_ptr<std::remove_pointer_t<tileirasProgram>, Release>;

int compile(const std::string &input, int gpu, std::ofstream &output) {
    tileirasProgramConfig config{};
    config.inputBuffer = input.data();
    config.inputSize = input.size();
    config.gpu = gpu;
    config.optLevel = 3;
    tileirasProgram handle = nullptr;
    if (int code = tileirasProgramCreate(&handle, &config)) return code;
    const Program program(handle);
    if (int code = tileirasProgramCompile(handle)) return code;
    tileirasBuffer cubin{};
    if (int code = tileirasProgramGetOutput(handle, &cubin)) return code;
    output.write(static_cast<const char *>(cubin.data), static_cast<std::streamsize>(cubin.size));
    return output ? 0 : TILEIRAS_ERROR_INVALID_CONFIGURATION;
}

}  // namespace

int main(int count, char **words) {
    if (count != 4) {
        std::fprintf(stderr, "usage: compile IN GPU OUT\n");
        return 1;
    }
    std::string messages;
    tileirasSetMessageHandler([](const char *text, void *user) { *static_cast<std::string *>(user) += text; }, &messages);
    std::ifstream input(words[1], std::ios::binary);
    std::ofstream output(words[3], std::ios::binary);
    const int code = compile({std::istreambuf_iterator<char>(input), {}}, std::atoi(words[2]), output);
    std::fputs(messages.c_str(), stderr);
    return code;
}
