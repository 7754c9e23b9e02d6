    std::vector<unsigned char> bytes_;
    void grow(std::int64_t bytes) {
        std::size_t wanted = static_cast<std::size_t>(bytes) + 2 * @UPPER@_MEMORY_ALIGN;
        if (bytes_.size() < wanted) bytes_.resize(wanted);
    }
    void *arena() {
        std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(bytes_.data());
        return bytes_.data() + @UPPER@_MEMORY_ALIGN - begin % @UPPER@_MEMORY_ALIGN;
    }
