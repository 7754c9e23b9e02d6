#ifndef @UPPER@_HPP
#define @UPPER@_HPP

#include "@NAME@.h"
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

/** @NAME@ with its weights and working memory; one thread at a time can call it. */
class @NAME@_function {
public:
@MEMBERS@
    @NAME@_function(const @NAME@_function &) = delete;
    @NAME@_function &operator=(const @NAME@_function &) = delete;
    /** Throws std::runtime_error for a status other than 0. */
    void operator()(@SIGNATURE@) {
@BEGIN@
        check(@NAME@(@HANDED@));
    }

private:
    static void check(int status) {
        if (status) throw std::runtime_error(std::string("@NAME@: ") +
                                             @NAME@_status_text(status));
    }
@PRIVATE@
};

#endif
