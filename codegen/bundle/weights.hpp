    /** Maps the weights of a file. Throws std::runtime_error. */
    explicit @NAME@_function(const std::string &path)
        : weights_(@NAME@_map_weights(path.c_str())) {
        if (!weights_) throw std::runtime_error("no weights in " + path);
    }
    ~@NAME@_function() { @NAME@_unmap_weights(weights_); }
