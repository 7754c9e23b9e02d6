
; What LLVM calls for products of 128 bits: engines have those of 64 bits only.
define void @__multi3(ptr %result, i64 %a, i64 %a.high, i64 %b, i64 %b.high) noinline optnone {
  %a0 = and i64 %a, 4294967295
  %a1 = lshr i64 %a, 32
  %b0 = and i64 %b, 4294967295
  %b1 = lshr i64 %b, 32
  %low = mul i64 %a0, %b0
  %cross0 = mul i64 %a1, %b0
  %cross1 = mul i64 %a0, %b1
  %high = mul i64 %a1, %b1
  %low.carry = lshr i64 %low, 32
  %middle.sum = add i64 %cross0, %low.carry
  %middle = and i64 %middle.sum, 4294967295
  %middle.all = add i64 %middle, %cross1
  %carry0 = lshr i64 %middle.sum, 32
  %carry1 = lshr i64 %middle.all, 32
  %high.0 = add i64 %high, %carry0
  %high.1 = add i64 %high.0, %carry1
  %mixed0 = mul i64 %a.high, %b
  %mixed1 = mul i64 %a, %b.high
  %high.2 = add i64 %high.1, %mixed0
  %high.3 = add i64 %high.2, %mixed1
  %whole = mul i64 %a, %b
  store i64 %whole, ptr %result, align 8
  %second = getelementptr i64, ptr %result, i32 1
  store i64 %high.3, ptr %second, align 8
  ret void
}
