
/* Later calls run loops by this function: it calls part(context, i, j), in threads
   of its own, for ranges i..j that make up 0..n, and returns when all did.
   Null: the thread that calls runs them. */
typedef void @NAME@_part(void *context, int64_t first, int64_t end);
void @NAME@_set_parallel_for(
    void (*run)(@NAME@_part *part, void *context, int64_t n));
