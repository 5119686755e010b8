; What programs do with objects at every turn, small enough to be inlined.

declare i64 @llvm.read_register.i64(metadata)

define internal void @rt.check_stack(ptr %heap) alwaysinline nounwind {
  %now = call i64 @llvm.read_register.i64(metadata !0)
  %least = load i64, ptr %heap
  %deep = icmp ult i64 %now, %least
  br i1 %deep, label %refuse, label %go
refuse:
  call void @rt.too_deep(ptr %heap)
  unreachable
go:
  ret void
}

define internal void @rt.count_live(ptr %heap, i64 %change) alwaysinline nounwind {
  %live = getelementptr i8, ptr %heap, i64 $LIVE
  %before = load i64, ptr %live
  %after = add i64 %before, %change
  store i64 %after, ptr %live
  ret void
}

define internal ptr @rt.new(ptr %heap, i64 %class) alwaysinline nounwind {
  %lists = getelementptr i8, ptr %heap, i64 $FREE_LISTS
  %list = getelementptr ptr, ptr %lists, i64 %class
  %first = load ptr, ptr %list
  %none = icmp eq ptr %first, null
  br i1 %none, label %slow, label %fast
fast:
  %next = load ptr, ptr %first
  store ptr %next, ptr %list
  call void @rt.count_live(ptr %heap, i64 1)
  ret ptr %first
slow:
  %new = call ptr @rt.carve(ptr %heap, i64 %class)
  ret ptr %new
}

define internal void @rt.release(ptr %heap, ptr %object) alwaysinline nounwind {
  call void @rt.count_live(ptr %heap, i64 -1)
  %class.place = getelementptr i8, ptr %object, i64 5
  %class.byte = load i8, ptr %class.place
  %large = icmp eq i8 %class.byte, -1
  br i1 %large, label %system, label %list
system:
  call void @rt.free_large(ptr %heap, ptr %object)
  ret void
list:
  %class = zext i8 %class.byte to i64
  %lists = getelementptr i8, ptr %heap, i64 $FREE_LISTS
  %place = getelementptr ptr, ptr %lists, i64 %class
  %first = load ptr, ptr %place
  store ptr %first, ptr %object
  store ptr %object, ptr %place
  ret void
}

define internal void @rt.dup(ptr %object) alwaysinline nounwind {
  %owners = load i32, ptr %object
  %counted = icmp sge i32 %owners, 0
  br i1 %counted, label %count, label %done
count:
  %more = add i32 %owners, 1
  store i32 %more, ptr %object
  br label %done
done:
  ret void
}

define internal void @rt.drop(ptr %heap, ptr %object) alwaysinline nounwind {
  %owners = load i32, ptr %object
  %last = icmp eq i32 %owners, 1
  br i1 %last, label %end, label %more
more:
  %counted = icmp sge i32 %owners, 0
  br i1 %counted, label %count, label %done
count:
  %less = sub i32 %owners, 1
  store i32 %less, ptr %object
  br label %done
end:
  call void @rt.destroy(ptr %heap, ptr %object)
  br label %done
done:
  ret void
}

define internal i64 @rt.data_offset(i64 %rank) alwaysinline nounwind {
  %extents = mul i64 %rank, 8
  %raised = add i64 %extents, 71
  %aligned = and i64 %raised, -64
  %scalar = icmp eq i64 %rank, 0
  %offset = select i1 %scalar, i64 8, i64 %aligned
  ret i64 %offset
}
