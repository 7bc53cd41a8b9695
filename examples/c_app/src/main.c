/* compile IN GPU OUT [LEVEL]: one Tile IR file, bytecode or text, to a cubin, in this process. */
#include <stdio.h>
#include <stdlib.h>

#include "tileiras.h"

static void *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    char *data = NULL;
    long end;

    if (file != NULL && fseek(file, 0, SEEK_END) == 0 && (end = ftell(file)) >= 0 && fseek(file, 0, SEEK_SET) == 0) {
        *size = (size_t)end;
        data = malloc(*size + 1);
        if (data != NULL && fread(data, 1, *size, file) != *size) {
            free(data);
            data = NULL;
        }
    }
    if (file != NULL)
        fclose(file);
    return data;
}

static int write_file(const char *path, const void *data, size_t size) {
    FILE *file = fopen(path, "wb");
    int written = file != NULL && fwrite(data, 1, size, file) == size;

    return (file == NULL || fclose(file) == 0) && written ? 0 : -1;
}

int main(int count, char **words) {
    tileirasProgramConfig config = {0};
    tileirasProgram program;
    tileirasBuffer cubin;
    void *input;
    int result;

    if (count < 4 || count > 5) {
        fprintf(stderr, "usage: compile IN GPU OUT [LEVEL]\n");
        return 1;
    }
    input = read_file(words[1], &config.inputSize);
    if (input == NULL) {
        fprintf(stderr, "error: unable to read input file '%s'\n", words[1]);
        return 1;
    }
    config.inputBuffer = input;
    config.gpu = atoi(words[2]);
    config.optLevel = count == 5 ? atoi(words[4]) : 3;
    config.outputFile = words[3];

    result = tileirasProgramCreate(&program, &config);
    free(input);                /* create has copied it */
    if (result != TILEIRAS_SUCCESS)
        return result;
    result = tileirasProgramCompile(program);
    if (result == TILEIRAS_SUCCESS)
        result = tileirasProgramGetOutput(program, &cubin);
    if (result == TILEIRAS_SUCCESS && write_file(words[3], cubin.data, cubin.size) != 0) {
        fprintf(stderr, "error: unable to write output file '%s'\n", words[3]);
        result = TILEIRAS_ERROR_INVALID_CONFIGURATION;
    }
    if (result == TILEIRAS_SUCCESS)
        printf("%s: %zu bytes for sm_%d\n", words[3], cubin.size, config.gpu);
    tileirasProgramRelease(program);
    return result;
}
