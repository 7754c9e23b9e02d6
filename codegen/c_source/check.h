typedef struct {
  const void *address;
  int64_t bytes, align;
} lw_operand;

/* Looks at what the caller has handed over; from number `written` on, operands are written. */
static int lw_check(const lw_operand *operands, int count, int written) {
  for (int i = 0; i < count; i++) {
    const uintptr_t address = (uintptr_t)operands[i].address;
    const uintptr_t end = address + (uintptr_t)operands[i].bytes;
    if (operands[i].bytes == 0) continue;
    if (address == 0) return @NULL;
    if (address % (uintptr_t)operands[i].align != 0) return @ALIGNMENT;
    if (end < address) return @OVERLAP;
    for (int j = 0; i >= written && j < i; j++) {
      const uintptr_t other = (uintptr_t)operands[j].address;
      if (operands[j].bytes == 0) continue;
      if (address < other + (uintptr_t)operands[j].bytes && other < end) return @OVERLAP;
    }
  }
  return @OK;
}
