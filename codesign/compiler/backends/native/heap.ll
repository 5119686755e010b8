; The heap of compiled programs: objects, owners, values in and out, the stack. Compiled once for a
; processor. Names in capitals after a dollar sign are numbers of codesign/ir/executable/heap.py; small.ll
; has what is inlined.

declare ptr @aligned_alloc(i64, i64)
declare ptr @realloc(ptr, i64)
declare void @free(ptr)
declare ptr @mmap(ptr, i64, i32, i32, i32, i64)
declare i32 @munmap(ptr, i64)
declare i32 @mprotect(ptr, i64, i32)
declare i32 @madvise(ptr, i64, i32)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @rt.main(ptr)

@rt.single = external constant [0 x { i64, i64 }]

define void @rt.fail(ptr %heap, i64 %site, i64 %detail) noinline cold noreturn nounwind {
  %sites = getelementptr i8, ptr %heap, i64 $SITE
  store i64 %site, ptr %sites
  %details = getelementptr i8, ptr %heap, i64 $DETAIL
  store i64 %detail, ptr %details
  call void asm sideeffect "$ASM_LEAVE", "{$REG_HEAP},~{memory}"(ptr %heap)
  unreachable
}

define internal void @rt.enter(ptr %heap, ptr %code, ptr %top) noinline noredzone nounwind {
  call void asm sideeffect "$ASM_ENTER", "{$REG_HEAP},{$REG_CODE},{$REG_TOP},$CLOBBERS"(ptr %heap, ptr %code, ptr %top)
  ret void
}

define void @rt.too_deep(ptr %heap) noinline cold noreturn nounwind {
  call void @rt.fail(ptr %heap, i64 $OUT_OF_STACK, i64 0)
  unreachable
}

define internal ptr @rt.system(ptr %heap, i64 %bytes) noinline nounwind {
  %memory = call ptr @aligned_alloc(i64 64, i64 %bytes)
  %none = icmp eq ptr %memory, null
  br i1 %none, label %refuse, label %give
refuse:
  call void @rt.fail(ptr %heap, i64 $OUT_OF_MEMORY, i64 %bytes)
  unreachable
give:
  ret ptr %memory
}

define ptr @rt.carve(ptr %heap, i64 %class) noinline nounwind {
entry:
  %size.place = getelementptr [$CLASSES x i64], ptr @rt.class_bytes, i64 0, i64 %class
  %size = load i64, ptr %size.place
  %aligned = icmp uge i64 %class, $FIRST_ALIGNED
  %mask = select i1 %aligned, i64 63, i64 15
  %next.place = getelementptr i8, ptr %heap, i64 $NEXT
  %end.place = getelementptr i8, ptr %heap, i64 $END
  br label %try
try:
  %next = load i64, ptr %next.place
  %end = load i64, ptr %end.place
  %raised = add i64 %next, %mask
  %keep = xor i64 %mask, -1
  %begin = and i64 %raised, %keep
  %after = add i64 %begin, %size
  %fits = icmp ule i64 %after, %end
  br i1 %fits, label %take, label %more
take:
  store i64 %after, ptr %next.place
  call void @rt.count_live(ptr %heap, i64 1)
  %object = inttoptr i64 %begin to ptr
  ret ptr %object
more:
  %chunk = call ptr @rt.system(ptr %heap, i64 $CHUNK_BYTES)
  %chunks = getelementptr i8, ptr %heap, i64 $CHUNKS
  %older = load ptr, ptr %chunks
  store ptr %older, ptr %chunk
  store ptr %chunk, ptr %chunks
  %room = getelementptr i8, ptr %chunk, i64 64
  store ptr %room, ptr %next.place
  %limit = getelementptr i8, ptr %chunk, i64 $CHUNK_BYTES
  store ptr %limit, ptr %end.place
  br label %try
}

define ptr @rt.new_large(ptr %heap, i64 %bytes) noinline nounwind {
  %raised = add i64 %bytes, 127
  %size = and i64 %raised, -64
  %memory = call ptr @rt.system(ptr %heap, i64 %size)
  %list = getelementptr i8, ptr %heap, i64 $LARGE_OBJECTS
  %older = load ptr, ptr %list
  store ptr %older, ptr %memory
  %back = getelementptr i8, ptr %memory, i64 8
  store ptr null, ptr %back
  store ptr %memory, ptr %list
  %none = icmp eq ptr %older, null
  br i1 %none, label %done, label %link
link:
  %older.back = getelementptr i8, ptr %older, i64 8
  store ptr %memory, ptr %older.back
  br label %done
done:
  call void @rt.count_live(ptr %heap, i64 1)
  %object = getelementptr i8, ptr %memory, i64 64
  ret ptr %object
}

; A tensor whose size is known at run time only: `head` is its word without the size class.
define ptr @rt.new_tensor(ptr %heap, i64 %head, i64 %offset, i64 %data) noinline nounwind {
entry:
  %bytes = add i64 %offset, %data
  %large = icmp ugt i64 %bytes, $GREATEST_CLASS
  br i1 %large, label %system, label %search
system:
  %big = call ptr @rt.new_large(ptr %heap, i64 %bytes)
  br label %done
search:
  %class = phi i64 [ $FIRST_ALIGNED, %entry ], [ %class.next, %search ]
  %class.next = add i64 %class, 1
  %size.place = getelementptr [$CLASSES x i64], ptr @rt.class_bytes, i64 0, i64 %class
  %size = load i64, ptr %size.place
  %fits = icmp uge i64 %size, %bytes
  br i1 %fits, label %small, label %search
small:
  %little = call ptr @rt.new(ptr %heap, i64 %class)
  br label %done
done:
  %object = phi ptr [ %big, %system ], [ %little, %small ]
  %found = phi i64 [ $LARGE, %system ], [ %class, %small ]
  %moved = shl i64 %found, 40
  %word = or i64 %head, %moved
  store i64 %word, ptr %object
  ret ptr %object
}

define void @rt.free_large(ptr %heap, ptr %object) noinline nounwind {
  %memory = getelementptr i8, ptr %object, i64 -64
  %next = load ptr, ptr %memory
  %back.place = getelementptr i8, ptr %memory, i64 8
  %back = load ptr, ptr %back.place
  %first = icmp eq ptr %back, null
  %list = getelementptr i8, ptr %heap, i64 $LARGE_OBJECTS
  %before = select i1 %first, ptr %list, ptr %back
  store ptr %next, ptr %before
  %last = icmp eq ptr %next, null
  br i1 %last, label %done, label %link
link:
  %next.back = getelementptr i8, ptr %next, i64 8
  store ptr %back, ptr %next.back
  br label %done
done:
  call void @free(ptr %memory)
  ret void
}

define void @rt.dup_maybe(ptr %object) noinline nounwind {
  %none = icmp eq ptr %object, null
  br i1 %none, label %done, label %some
some:
  call void @rt.dup(ptr %object)
  br label %done
done:
  ret void
}

define void @rt.drop_maybe(ptr %heap, ptr %object) noinline nounwind {
  %none = icmp eq ptr %object, null
  br i1 %none, label %done, label %some
some:
  call void @rt.drop(ptr %heap, ptr %object)
  br label %done
done:
  ret void
}

; Frees an object and what only it held. Objects that wait are linked through their second word.
define void @rt.destroy(ptr %heap, ptr %object) noinline nounwind {
entry:
  %kind.first = getelementptr i8, ptr %object, i64 4
  %kind = load i8, ptr %kind.first
  %tensor = icmp eq i8 %kind, 0
  br i1 %tensor, label %leaf, label %begin
leaf:
  call void @rt.release(ptr %heap, ptr %object)
  ret void
begin:
  %link.first = getelementptr i8, ptr %object, i64 8
  store ptr null, ptr %link.first
  br label %node
node:
  %now = phi ptr [ %object, %begin ], [ %following, %turn ]
  %link.place = getelementptr i8, ptr %now, i64 8
  %rest = load ptr, ptr %link.place
  %count.place = getelementptr i8, ptr %now, i64 6
  %count.short = load i16, ptr %count.place
  %count = zext i16 %count.short to i64
  %fields = getelementptr i8, ptr %now, i64 $FIELDS_OFFSET
  br label %fields.head
fields.head:
  %index = phi i64 [ 0, %node ], [ %index.next, %field.done ]
  %waiting = phi ptr [ %rest, %node ], [ %waiting.next, %field.done ]
  %more = icmp ult i64 %index, %count
  br i1 %more, label %field, label %node.done
field:
  %place = getelementptr ptr, ptr %fields, i64 %index
  %child = load ptr, ptr %place
  %owners = load i32, ptr %child
  %last = icmp eq i32 %owners, 1
  br i1 %last, label %dies, label %stays
stays:
  %counted = icmp sge i32 %owners, 0
  br i1 %counted, label %less, label %field.done
less:
  %fewer = sub i32 %owners, 1
  store i32 %fewer, ptr %child
  br label %field.done
dies:
  %child.kind.place = getelementptr i8, ptr %child, i64 4
  %child.kind = load i8, ptr %child.kind.place
  %child.tensor = icmp eq i8 %child.kind, 0
  br i1 %child.tensor, label %child.leaf, label %child.node
child.leaf:
  call void @rt.release(ptr %heap, ptr %child)
  br label %field.done
child.node:
  %child.link = getelementptr i8, ptr %child, i64 8
  store ptr %waiting, ptr %child.link
  br label %field.done
field.done:
  %waiting.next = phi ptr [ %waiting, %stays ], [ %waiting, %less ], [ %waiting, %child.leaf ], [ %child, %child.node ]
  %index.next = add i64 %index, 1
  br label %fields.head
node.done:
  call void @rt.release(ptr %heap, ptr %now)
  %empty = icmp eq ptr %waiting, null
  br i1 %empty, label %done, label %turn
turn:
  %following = phi ptr [ %waiting, %node.done ]
  br label %node
done:
  ret void
}

define internal ptr @rt.scratch(ptr %heap, i64 %count) noinline nounwind {
  %buffer = call ptr @rt.grow(ptr %heap, i64 $SCRATCH, i64 $SCRATCH_ROOM, i64 %count, i64 8)
  ret ptr %buffer
}

; The buffer of a slot with room for so many elements, kept from run to run.
define internal ptr @rt.grow(ptr %heap, i64 %slot, i64 %room.slot, i64 %count, i64 %size) noinline nounwind {
  %place = getelementptr i8, ptr %heap, i64 %slot
  %room.place = getelementptr i8, ptr %heap, i64 %room.slot
  %buffer = load ptr, ptr %place
  %room = load i64, ptr %room.place
  %enough = icmp uge i64 %room, %count
  br i1 %enough, label %keep, label %more
keep:
  ret ptr %buffer
more:
  %twice = mul i64 %count, 2
  %wanted = add i64 %twice, 64
  %bytes = mul i64 %wanted, %size
  %new = call ptr @realloc(ptr %buffer, i64 %bytes)
  %none = icmp eq ptr %new, null
  br i1 %none, label %refuse, label %take
refuse:
  call void @rt.fail(ptr %heap, i64 $OUT_OF_MEMORY, i64 %bytes)
  unreachable
take:
  store ptr %new, ptr %place
  store i64 %wanted, ptr %room.place
  ret ptr %new
}

define ptr @rt.build(ptr %heap) noinline nounwind {
entry:
  %words.place = getelementptr i8, ptr %heap, i64 $INPUT_WORDS
  %words = load i64, ptr %words.place
  %end.place = getelementptr i8, ptr %heap, i64 $INPUT_END
  %end = load i64, ptr %end.place
  %data.place = getelementptr i8, ptr %heap, i64 $INPUT_DATA
  %data.end = load ptr, ptr %data.place
  %bytes = sub i64 %end, %words
  %count = udiv i64 %bytes, 8
  %room = add i64 %count, 1
  %stack = call ptr @rt.scratch(ptr %heap, i64 %room)
  %shared.place = getelementptr i8, ptr %heap, i64 $SHARED_COUNT
  store i64 0, ptr %shared.place
  br label %head
head:
  %at = phi i64 [ %end, %entry ], [ %tensor.at, %tensor.done ], [ %node.at, %pushed ]
  %top = phi i64 [ 0, %entry ], [ %tensor.top, %tensor.done ], [ %node.top, %pushed ]
  %data = phi ptr [ %data.end, %entry ], [ %tensor.data, %tensor.done ], [ %data, %pushed ]
  %done = icmp eq i64 %at, %words
  br i1 %done, label %finish, label %one
finish:
  ret ptr %stack
one:
  %one.at = sub i64 %at, 8
  %one.place = inttoptr i64 %one.at to ptr
  %word = load i64, ptr %one.place
  %kind.far = lshr i64 %word, 32
  %kind = and i64 %kind.far, 127
  %class.far = lshr i64 %word, 40
  %class = and i64 %class.far, 255
  %large = icmp eq i64 %class, $LARGE
  %flag = and i64 %word, $SHARED_FLAG
  %is.named = icmp ne i64 %flag, 0
  %unnamed = xor i64 %word, %flag
  %body = and i64 %unnamed, -4294967296
  %first = or i64 %body, 1
  %is.tensor = icmp eq i64 %kind, 0
  br i1 %is.tensor, label %tensor, label %node
tensor:
  %rank = lshr i64 %word, 56
  %size.at = sub i64 %one.at, 8
  %size.place = inttoptr i64 %size.at to ptr
  %size = load i64, ptr %size.place
  %offset = call i64 @rt.data_offset(i64 %rank)
  br i1 %large, label %tensor.large, label %tensor.small
tensor.large:
  %total = add i64 %offset, %size
  %object.large = call ptr @rt.new_large(ptr %heap, i64 %total)
  br label %tensor.fill
tensor.small:
  %object.small = call ptr @rt.new(ptr %heap, i64 %class)
  br label %tensor.fill
tensor.fill:
  %object = phi ptr [ %object.large, %tensor.large ], [ %object.small, %tensor.small ]
  store i64 %first, ptr %object
  %extents.bytes = mul i64 %rank, 8
  %tensor.at = sub i64 %size.at, %extents.bytes
  %extents = inttoptr i64 %tensor.at to ptr
  %extents.to = getelementptr i8, ptr %object, i64 8
  call void @llvm.memcpy.p0.p0.i64(ptr %extents.to, ptr %extents, i64 %extents.bytes, i1 false)
  %back = sub i64 0, %size
  %tensor.data = getelementptr i8, ptr %data, i64 %back
  %elements = getelementptr i8, ptr %object, i64 %offset
  call void @llvm.memcpy.p0.p0.i64(ptr %elements, ptr %tensor.data, i64 %size, i1 false)
  br label %tensor.done
tensor.done:
  %tensor.place = getelementptr ptr, ptr %stack, i64 %top
  store ptr %object, ptr %tensor.place
  %tensor.top = add i64 %top, 1
  br label %head
node:
  %tag.short = trunc i64 %word to i32
  %tag = zext i32 %tag.short to i64
  %is.reference = icmp eq i64 %kind, $REFERENCE
  br i1 %is.reference, label %reference, label %made.here
reference:
  %known.table.place = getelementptr i8, ptr %heap, i64 $SHARED
  %known.table = load ptr, ptr %known.table.place
  %known.row = getelementptr { ptr, i64 }, ptr %known.table, i64 %tag
  %again = load ptr, ptr %known.row
  call void @rt.dup(ptr %again)
  br label %node.push
made.here:
  %fields = lshr i64 %word, 48
  %once = icmp eq i64 %fields, 0
  br i1 %once, label %node.once, label %node.new
node.once:
  %is.tuple = icmp eq i64 %kind, $TUPLE
  %single = getelementptr { i64, i64 }, ptr @rt.single, i64 %tag
  %known = select i1 %is.tuple, ptr @rt.unit, ptr %single
  br label %node.push
node.new:
  br i1 %large, label %node.large, label %node.small
node.large:
  %fields.bytes.large = mul i64 %fields, 8
  %node.total = add i64 %fields.bytes.large, $FIELDS_OFFSET
  %node.object.large = call ptr @rt.new_large(ptr %heap, i64 %node.total)
  br label %node.fill
node.small:
  %node.object.small = call ptr @rt.new(ptr %heap, i64 %class)
  br label %node.fill
node.fill:
  %node.object = phi ptr [ %node.object.large, %node.large ], [ %node.object.small, %node.small ]
  store i64 %first, ptr %node.object
  %tag.place = getelementptr i8, ptr %node.object, i64 8
  store i64 %tag, ptr %tag.place
  %below = sub i64 %top, %fields
  %from = getelementptr ptr, ptr %stack, i64 %below
  %to = getelementptr i8, ptr %node.object, i64 $FIELDS_OFFSET
  %fields.bytes = mul i64 %fields, 8
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %fields.bytes, i1 false)
  br label %node.push
node.push:
  %made = phi ptr [ %known, %node.once ], [ %node.object, %node.fill ], [ %again, %reference ]
  %rest.top = phi i64 [ %top, %node.once ], [ %below, %node.fill ], [ %top, %reference ]
  %node.at = phi i64 [ %one.at, %node.once ], [ %one.at, %node.fill ], [ %one.at, %reference ]
  %node.place = getelementptr ptr, ptr %stack, i64 %rest.top
  store ptr %made, ptr %node.place
  %node.top = add i64 %rest.top, 1
  br i1 %is.named, label %name, label %pushed
name:
  %named.count = load i64, ptr %shared.place
  %named.more = add i64 %named.count, 1
  %table = call ptr @rt.grow(ptr %heap, i64 $SHARED, i64 $SHARED_ROOM, i64 %named.more, i64 16)
  %row = getelementptr { ptr, i64 }, ptr %table, i64 %named.count
  store ptr %made, ptr %row
  store i64 %named.more, ptr %shared.place
  br label %pushed
pushed:
  br label %head
}

define internal void @rt.put(ptr %heap, i64 %word) noinline nounwind {
  %count.place = getelementptr i8, ptr %heap, i64 $WORD_COUNT
  %count = load i64, ptr %count.place
  %more = add i64 %count, 1
  %buffer = call ptr @rt.grow(ptr %heap, i64 $WORDS, i64 $WORD_ROOM, i64 %more, i64 8)
  %place = getelementptr i64, ptr %buffer, i64 %count
  store i64 %word, ptr %place
  store i64 %more, ptr %count.place
  ret void
}

; Marks an object that has several owners; returns the flag of its word, or 0.
define internal i64 @rt.mark(ptr %heap, ptr %object, i64 %word) noinline nounwind {
  %owners = trunc i64 %word to i32
  %several = icmp sgt i32 %owners, 1
  br i1 %several, label %mark, label %single
single:
  ret i64 0
mark:
  %count.place = getelementptr i8, ptr %heap, i64 $SHARED_COUNT
  %count = load i64, ptr %count.place
  %more = add i64 %count, 1
  %table = call ptr @rt.grow(ptr %heap, i64 $SHARED, i64 $SHARED_ROOM, i64 %more, i64 16)
  %row = getelementptr { ptr, i64 }, ptr %table, i64 %count
  store ptr %object, ptr %row
  %kept = getelementptr i8, ptr %row, i64 8
  store i64 %word, ptr %kept
  store i64 %more, ptr %count.place
  %body = and i64 %word, -4294967296
  %named = or i64 %body, %count
  %marked = or i64 %named, $SHARED_FLAG
  store i64 %marked, ptr %object
  ret i64 $SHARED_FLAG
}

define void @rt.write(ptr %heap, ptr %root) noinline nounwind {
entry:
  %words.place = getelementptr i8, ptr %heap, i64 $WORD_COUNT
  store i64 0, ptr %words.place
  %bytes.place = getelementptr i8, ptr %heap, i64 $BYTE_COUNT
  store i64 0, ptr %bytes.place
  %shared.place = getelementptr i8, ptr %heap, i64 $SHARED_COUNT
  store i64 0, ptr %shared.place
  %start = call ptr @rt.scratch(ptr %heap, i64 1)
  store ptr %root, ptr %start
  br label %head
head:
  %top = phi i64 [ 1, %entry ], [ %below, %named ], [ %below, %tensor.done ], [ %below, %node.put ], [ %pushed, %push.done ]
  %empty = icmp eq i64 %top, 0
  br i1 %empty, label %restore, label %pop
pop:
  %below = sub i64 %top, 1
  %stack = call ptr @rt.scratch(ptr %heap, i64 %top)
  %entry.place = getelementptr i64, ptr %stack, i64 %below
  %item = load i64, ptr %entry.place
  %complete.bit = and i64 %item, 1
  %complete = icmp ne i64 %complete.bit, 0
  %address = and i64 %item, -2
  %object = inttoptr i64 %address to ptr
  %word = load i64, ptr %object
  %kind.far = lshr i64 %word, 32
  %kind = and i64 %kind.far, 255
  %fields = lshr i64 %word, 48
  %tag.place = getelementptr i8, ptr %object, i64 8
  br i1 %complete, label %node.put, label %first
first:
  %was.written = icmp uge i64 %kind, 128
  br i1 %was.written, label %named, label %new
named:
  %ordinal = and i64 %word, 4294967295
  %reference = or i64 %ordinal, $REFERENCE_WORD
  call void @rt.put(ptr %heap, i64 %reference)
  br label %head
new:
  %is.tensor = icmp eq i64 %kind, 0
  br i1 %is.tensor, label %tensor, label %node
tensor:
  %rank = lshr i64 %word, 56
  %scalar = icmp eq i64 %rank, 0
  br i1 %scalar, label %tensor.plain, label %tensor.mark
tensor.mark:
  %tensor.flag.set = call i64 @rt.mark(ptr %heap, ptr %object, i64 %word)
  br label %tensor.plain
tensor.plain:
  %tensor.flag = phi i64 [ 0, %tensor ], [ %tensor.flag.set, %tensor.mark ]
  %tensor.body = and i64 %word, -4294967296
  %tensor.word = or i64 %tensor.body, %tensor.flag
  call void @rt.put(ptr %heap, i64 %tensor.word)
  %dtype.far = lshr i64 %word, 48
  %dtype = and i64 %dtype.far, 255
  %item.place = getelementptr [$DTYPES x i64], ptr @rt.item_bytes, i64 0, i64 %dtype
  %item.bytes = load i64, ptr %item.place
  br label %extent
extent:
  %extent.index = phi i64 [ 0, %tensor.plain ], [ %extent.next, %extent.one ]
  %size = phi i64 [ %item.bytes, %tensor.plain ], [ %size.next, %extent.one ]
  %extent.more = icmp ult i64 %extent.index, %rank
  br i1 %extent.more, label %extent.one, label %tensor.copy
extent.one:
  %extent.next = add i64 %extent.index, 1
  %extent.place = getelementptr i64, ptr %object, i64 %extent.next
  %length = load i64, ptr %extent.place
  call void @rt.put(ptr %heap, i64 %length)
  %size.next = mul i64 %size, %length
  br label %extent
tensor.copy:
  %used = load i64, ptr %bytes.place
  call void @rt.put(ptr %heap, i64 %used)
  %raised = add i64 %size, 7
  %taken = and i64 %raised, -8
  %used.next = add i64 %used, %taken
  %buffer = call ptr @rt.grow(ptr %heap, i64 $BYTES, i64 $BYTE_ROOM, i64 %used.next, i64 1)
  store i64 %used.next, ptr %bytes.place
  %to = getelementptr i8, ptr %buffer, i64 %used
  %offset = call i64 @rt.data_offset(i64 %rank)
  %from = getelementptr i8, ptr %object, i64 %offset
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %size, i1 false)
  br label %tensor.done
tensor.done:
  br label %head
node:
  %leaf = icmp eq i64 %fields, 0
  br i1 %leaf, label %node.put, label %push
push:
  %pushed.count = add i64 %below, %fields
  %pushed = add i64 %pushed.count, 1
  %grown = call ptr @rt.scratch(ptr %heap, i64 %pushed)
  %again = getelementptr i64, ptr %grown, i64 %below
  %again.item = or i64 %address, 1
  store i64 %again.item, ptr %again
  br label %push.head
push.head:
  %push.index = phi i64 [ 0, %push ], [ %push.next, %push.one ]
  %push.more = icmp ult i64 %push.index, %fields
  br i1 %push.more, label %push.one, label %push.done
push.one:
  %push.next = add i64 %push.index, 1
  %source.bytes = mul i64 %push.index, 8
  %source.offset = add i64 %source.bytes, $FIELDS_OFFSET
  %source = getelementptr i8, ptr %object, i64 %source.offset
  %child = load ptr, ptr %source
  %place.index = sub i64 %pushed, %push.next
  %push.place = getelementptr ptr, ptr %grown, i64 %place.index
  store ptr %child, ptr %push.place
  br label %push.head
push.done:
  br label %head
node.put:
  %node.flag = call i64 @rt.mark(ptr %heap, ptr %object, i64 %word)
  %tag = load i64, ptr %tag.place
  %node.body = and i64 %word, -4294967296
  %node.tagged = or i64 %node.body, %tag
  %node.word = or i64 %node.tagged, %node.flag
  call void @rt.put(ptr %heap, i64 %node.word)
  br label %head
restore:
  %shared = load i64, ptr %shared.place
  %table.place = getelementptr i8, ptr %heap, i64 $SHARED
  %table = load ptr, ptr %table.place
  br label %restore.head
restore.head:
  %index = phi i64 [ 0, %restore ], [ %index.next, %restore.one ]
  %index.more = icmp ult i64 %index, %shared
  br i1 %index.more, label %restore.one, label %done
restore.one:
  %row = getelementptr { ptr, i64 }, ptr %table, i64 %index
  %marked = load ptr, ptr %row
  %kept.place = getelementptr i8, ptr %row, i64 8
  %kept = load i64, ptr %kept.place
  store i64 %kept, ptr %marked
  %index.next = add i64 %index, 1
  br label %restore.head
done:
  ret void
}

define ptr @heap_new(ptr %constants, i64 %workspace.bytes, i64 %stack.bytes) nounwind {
entry:
  %heap = call ptr @aligned_alloc(i64 64, i64 $HEAP_BYTES)
  %none = icmp eq ptr %heap, null
  br i1 %none, label %refuse, label %fill
refuse:
  ret ptr null
fill:
  call void @llvm.memset.p0.i64(ptr %heap, i8 0, i64 $HEAP_BYTES, i1 false)
  %constants.place = getelementptr i8, ptr %heap, i64 $CONSTANTS
  store ptr %constants, ptr %constants.place
  %workspace = call ptr @aligned_alloc(i64 64, i64 %workspace.bytes)
  %workspace.place = getelementptr i8, ptr %heap, i64 $WORKSPACE
  store ptr %workspace, ptr %workspace.place
  %stack = call ptr @mmap(ptr null, i64 %stack.bytes, i32 3, i32 16418, i32 -1, i64 0)
  %failed = icmp eq ptr %stack, inttoptr (i64 -1 to ptr)
  %no.workspace = icmp eq ptr %workspace, null
  %lacks = or i1 %failed, %no.workspace
  br i1 %lacks, label %undo, label %ready
undo:
  call void @free(ptr %workspace)
  call void @free(ptr %heap)
  ret ptr null
ready:
  %stack.place = getelementptr i8, ptr %heap, i64 $STACK
  store ptr %stack, ptr %stack.place
  %size.place = getelementptr i8, ptr %heap, i64 $STACK_BYTES
  store i64 %stack.bytes, ptr %size.place
  %guarded = call i32 @mprotect(ptr %stack, i64 65536, i32 0)
  %top = getelementptr i8, ptr %stack, i64 %stack.bytes
  %top.place = getelementptr i8, ptr %heap, i64 $STACK_TOP
  store ptr %top, ptr %top.place
  %limit = getelementptr i8, ptr %stack, i64 $STACK_MARGIN
  store ptr %limit, ptr %heap
  ret ptr %heap
}

define internal void @rt.free_list(ptr %first) nounwind {
entry:
  br label %head
head:
  %now = phi ptr [ %first, %entry ], [ %next, %one ]
  %none = icmp eq ptr %now, null
  br i1 %none, label %done, label %one
one:
  %next = load ptr, ptr %now
  call void @free(ptr %now)
  br label %head
done:
  ret void
}

; Frees every object, whoever holds it.
define internal void @rt.reset(ptr %heap) nounwind {
  %large.place = getelementptr i8, ptr %heap, i64 $LARGE_OBJECTS
  %large = load ptr, ptr %large.place
  call void @rt.free_list(ptr %large)
  store ptr null, ptr %large.place
  %chunks.place = getelementptr i8, ptr %heap, i64 $CHUNKS
  %chunks = load ptr, ptr %chunks.place
  call void @rt.free_list(ptr %chunks)
  store ptr null, ptr %chunks.place
  %next.place = getelementptr i8, ptr %heap, i64 $NEXT
  store i64 0, ptr %next.place
  %end.place = getelementptr i8, ptr %heap, i64 $END
  store i64 0, ptr %end.place
  %live.place = getelementptr i8, ptr %heap, i64 $LIVE
  store i64 0, ptr %live.place
  %lists = getelementptr i8, ptr %heap, i64 $FREE_LISTS
  call void @llvm.memset.p0.i64(ptr %lists, i8 0, i64 $LISTS_BYTES, i1 false)
  ret void
}

define void @heap_delete(ptr %heap) nounwind {
  call void @rt.reset(ptr %heap)
  %workspace.place = getelementptr i8, ptr %heap, i64 $WORKSPACE
  %workspace = load ptr, ptr %workspace.place
  call void @free(ptr %workspace)
  %words.place = getelementptr i8, ptr %heap, i64 $WORDS
  %words = load ptr, ptr %words.place
  call void @free(ptr %words)
  %bytes.place = getelementptr i8, ptr %heap, i64 $BYTES
  %bytes = load ptr, ptr %bytes.place
  call void @free(ptr %bytes)
  %shared.place = getelementptr i8, ptr %heap, i64 $SHARED
  %shared = load ptr, ptr %shared.place
  call void @free(ptr %shared)
  %scratch.place = getelementptr i8, ptr %heap, i64 $SCRATCH
  %scratch = load ptr, ptr %scratch.place
  call void @free(ptr %scratch)
  %stack.place = getelementptr i8, ptr %heap, i64 $STACK
  %stack = load ptr, ptr %stack.place
  %size.place = getelementptr i8, ptr %heap, i64 $STACK_BYTES
  %size = load i64, ptr %size.place
  %ignored = call i32 @munmap(ptr %stack, i64 %size)
  call void @free(ptr %heap)
  ret void
}

; Runs the program once; returns the site of its mistake, or 0. LEFT says how many objects it
; has left behind; the memory of what is left is freed.
define i64 @heap_run(ptr %heap) nounwind {
  %site.place = getelementptr i8, ptr %heap, i64 $SITE
  store i64 0, ptr %site.place
  %top.place = getelementptr i8, ptr %heap, i64 $STACK_TOP
  %top = load ptr, ptr %top.place
  call void @rt.enter(ptr %heap, ptr @rt.main, ptr %top)
  %site = load i64, ptr %site.place
  %live.place = getelementptr i8, ptr %heap, i64 $LIVE
  %live = load i64, ptr %live.place
  %left.place = getelementptr i8, ptr %heap, i64 $LEFT
  store i64 %live, ptr %left.place
  %untidy = or i64 %site, %live
  %clean = icmp eq i64 %untidy, 0
  br i1 %clean, label %done, label %reset
reset:
  call void @rt.reset(ptr %heap)
  %deep = icmp eq i64 %site, $OUT_OF_STACK
  br i1 %deep, label %give, label %done
give:
  %stack.place = getelementptr i8, ptr %heap, i64 $STACK
  %stack = load ptr, ptr %stack.place
  %size.place = getelementptr i8, ptr %heap, i64 $STACK_BYTES
  %size = load i64, ptr %size.place
  %ignored = call i32 @madvise(ptr %stack, i64 %size, i32 4)
  br label %done
done:
  ret i64 %site
}
