/* Runs one kernel on a launch in a file: parameters, grid, scratch, and arrays with the offsets of their pointers. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int32_t ENTRY(const void *parameters, const int32_t grid[3], int64_t first, int64_t count, void *scratch);

static void take(void *to, size_t size, FILE *file) {
    if (size && fread(to, size, 1, file) != 1) exit(101);
}

int main(int count, char **words) {
    FILE *file = count == 2 ? fopen(words[1], "r+b") : NULL;
    if (!file) return 100;
    int64_t sizes[6]; /* of the parameters, x, y, z, of the scratch, number of arrays */
    take(sizes, sizeof sizes, file);
    char *parameters = calloc(1, sizes[0] + 8);
    take(parameters, sizes[0], file);
    int64_t arrays[64][2];
    char *data[64];
    long places[64];
    for (int n = 0; n < sizes[5]; n++) {
        take(arrays[n], sizeof arrays[n], file);
        places[n] = ftell(file);
        data[n] = aligned_alloc(64, arrays[n][1] / 64 * 64 + 64);
        take(data[n], arrays[n][1], file);
        memcpy(parameters + arrays[n][0], &data[n], sizeof data[n]);
    }
    const int32_t grid[3] = {(int32_t)sizes[1], (int32_t)sizes[2], (int32_t)sizes[3]};
    void *scratch = aligned_alloc(64, sizes[4] / 64 * 64 + 64);
    int32_t failed = ENTRY(parameters, grid, 0, sizes[1] * sizes[2] * sizes[3], scratch);
    for (int n = 0; n < sizes[5]; n++) {
        fseek(file, places[n], SEEK_SET);
        if (arrays[n][1] && fwrite(data[n], arrays[n][1], 1, file) != 1) return 102;
    }
    fclose(file);
    return failed;
}
