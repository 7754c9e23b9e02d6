
/* Threads of later calls; as many as cores without. */
void @NAME@_set_threads(int64_t threads);
/* Ends all threads until the number is set again. */
int @NAME@_stop_threads(void);
/* To be called in a forked process, which has none of the threads. */
void @NAME@_after_fork(void);
