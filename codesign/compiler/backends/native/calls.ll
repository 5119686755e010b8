; What programs call of heap.ll.

declare void @rt.fail(ptr, i64, i64) cold noreturn nounwind
declare void @rt.too_deep(ptr) cold noreturn nounwind
declare ptr @rt.carve(ptr, i64) nounwind
declare ptr @rt.new_large(ptr, i64) nounwind
declare ptr @rt.new_tensor(ptr, i64, i64, i64) nounwind
declare void @rt.free_large(ptr, ptr) nounwind
declare void @rt.dup_maybe(ptr) nounwind
declare void @rt.drop_maybe(ptr, ptr) nounwind
declare void @rt.destroy(ptr, ptr) nounwind
declare ptr @rt.build(ptr) nounwind
declare void @rt.write(ptr, ptr) nounwind
