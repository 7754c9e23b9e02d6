/* Runs @NAME@ on the inputs of @NAME@.example.bin, and compares with its results. */
#include "@NAME@.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *memory(size_t bytes) {
    void *made = aligned_alloc(@LINE@, (bytes / @LINE@ + 1) * @LINE@);
    if (made == 0)
        exit(2);
    return made;
}

static void *read_file(const char *folder, const char *name, size_t bytes) {
    char path[4096];
    unsigned char *data = memory(bytes);
    FILE *file;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    file = fopen(path, "rb");
    if (file == 0 || fread(data, 1, bytes, file) != bytes) {
        fprintf(stderr, "%s cannot be read\n", path);
        exit(2);
    }
    fclose(file);
    return data;
}

#define COMPARISON(type)                                                                           \
    static int compare_##type(const char *name, const type *given, const void *stored,             \
                              size_t count, double absolute, double relative) {                    \
        const type *expected = stored;                                                             \
        double largest = 0, apart = 0;                                                             \
        size_t n, other = 0;                                                                       \
        for (n = 0; n < count; n++) {                                                              \
            double a = (double)given[n], b = (double)expected[n];                                  \
            double size = b < 0 ? -b : b, error = a < b ? b - a : a - b;                           \
            if (a == b || (a != a && b != b))                                                      \
                error = 0;                                                                         \
            if (error != error)                                                                    \
                other++;                                                                           \
            if (size > largest && size - size == 0)                                                \
                largest = size;                                                                    \
            if (error > apart)                                                                     \
                apart = error;                                                                     \
        }                                                                                          \
        printf("%s: %zu numbers, at most %g from those stored\n", name, count, apart);             \
        return other != 0 || apart > absolute + relative * largest;                                \
    }
@COMPARISONS@

static void check(int status) {
    if (status == 0)
        return;
    fprintf(stderr, "@NAME@: %s\n", @NAME@_status_text(status));
    exit(1);
}

int main(int count, char **words) {
    const char *folder = count > 1 ? words[1] : ".";
    int wrong = 0;
    unsigned char *stored = read_file(folder, "@NAME@.example.bin", @STORED@);
@BODY@
    return wrong != 0;
}
