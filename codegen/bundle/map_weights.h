
#if (defined(__unix__) || defined(__APPLE__)) && !defined(@UPPER@_NO_MAP)
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
/* Returns the weights of a file, in its own pages; null if it cannot be read. */
static inline const void *@NAME@_map_weights(const char *path) {
    void *weights = MAP_FAILED;
    struct stat info;
    int file = open(path, O_RDONLY);
    if (file < 0)
        return 0;
    if (fstat(file, &info) == 0 && info.st_size == @UPPER@_WEIGHTS_BYTES)
        weights = mmap(0, @UPPER@_WEIGHTS_BYTES, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    return weights == MAP_FAILED ? 0 : weights;
}
static inline void @NAME@_unmap_weights(const void *weights) {
    if (weights)
        munmap((void *)weights, @UPPER@_WEIGHTS_BYTES);
}
#endif
