//! Our programs, put together for the layout of this kernel.
//!
//! One stands where system calls begin: it keeps the time of those that we record, in what belongs to the task. One stands where they end, and
//! writes an [event](crate::event) to the ring. Both leave at once where the task is not marked. Marks pass on to whatever a marked task starts.

use std::os::fd::{AsRawFd, OwnedFd};

use crate::asm::*;
use crate::calls::{Class, FOREIGN, N_CALLS};
use crate::event::{self, KIND_CALL, KIND_END, KIND_EXEC, KIND_TASK, at};
use crate::layout::Layout;

pub(crate) use libaio::{batch_begins, batch_ends, batch_refused};
pub(crate) use uring::{uring_complete, uring_submit};

mod libaio;
mod requests;
mod uring;

/// The maps that programs use.
pub(crate) struct Maps {
    /// Storage of each marked task: see [`task`].
    pub(crate) tasks: OwnedFd,
    pub(crate) ring: OwnedFd,
    /// The class of each system call.
    pub(crate) classes: OwnedFd,
    pub(crate) lost: OwnedFd,
    /// Requests under way: of `io_uring` by their address in the kernel, of libaio by that in the process, and the process.
    pub(crate) requests: OwnedFd,
    /// Where the programs go on that handle batches of libaio.
    pub(crate) batches: [OwnedFd; 2],
}

/// Storage of a marked task: numbers of 64 bits.
pub(crate) mod task {
    /// When the call began that is under way.
    pub(crate) const START: i16 = 0;
    /// Its number plus one; 0 if it is none of ours.
    pub(crate) const CALL: i16 = 8;
    /// The file that it closes: inode, device and mode, position.
    pub(crate) const INODE: i16 = 16;
    pub(crate) const DEVICE: i16 = 24;
    pub(crate) const POSITION: i16 = 32;
    /// How far a batch has been walked.
    pub(crate) const WALKED: i16 = 40;
    pub(crate) const N_NUMBERS: u32 = 6;
}

/// A request under way.
pub(crate) mod request {
    pub(crate) const START: i16 = 0;
    pub(crate) const THREAD: i16 = 8;
    pub(crate) const POSITION: i16 = 16;
    pub(crate) const INODE: i16 = 24;
    pub(crate) const DEVICE: i16 = 32;
    pub(crate) const CALL: i16 = 36;
    pub(crate) const FD: i16 = 40;
    pub(crate) const SIZE: u32 = 48;
    pub(crate) const KEY_SIZE: u32 = 16;
}

/// Places in the array of losses.
pub(crate) mod lost {
    pub(crate) const RING_FULL: i16 = 0;
    pub(crate) const FOREIGN: i16 = 8;
    pub(crate) const BATCH: i16 = 16;
    pub(crate) const REQUESTS: i16 = 24;
    pub(crate) const N: usize = 4;
}

/// Helpers of the kernel by their numbers.
mod helper {
    pub(super) const LOOK_UP: i32 = 1;
    pub(super) const UPDATE: i32 = 2;
    pub(super) const DELETE: i32 = 3;
    pub(super) const TIME: i32 = 5;
    pub(super) const GO_ON: i32 = 12;
    pub(super) const THREAD: i32 = 14;
    pub(super) const USER: i32 = 15;
    pub(super) const READ_USER: i32 = 112;
    pub(super) const READ_KERNEL: i32 = 113;
    pub(super) const READ_USER_TEXT: i32 = 114;
    pub(super) const READ_KERNEL_TEXT: i32 = 115;
    pub(super) const RESERVE: i32 = 131;
    pub(super) const SUBMIT: i32 = 132;
    pub(super) const DISCARD: i32 = 133;
    pub(super) const OF_TASK: i32 = 156;
    pub(super) const CURRENT: i32 = 158;
}

/// Registers of a call, as x86-64 keeps them.
mod regs {
    pub(super) const R10: i16 = 56;
    pub(super) const R9: i16 = 64;
    pub(super) const R8: i16 = 72;
    pub(super) const DX: i16 = 96;
    pub(super) const SI: i16 = 104;
    pub(super) const DI: i16 = 112;
    pub(super) const NUMBER: i16 = 120;
}

/// Our places on the stack.
mod slot {
    pub(super) const CALL: i16 = -8;
    pub(super) const CLASS: i16 = -16;
    pub(super) const NOW: i16 = -24;
    pub(super) const FD: i16 = -32;
    pub(super) const SCRATCH: i16 = -40;
    pub(super) const POSITION: i16 = -48;
    pub(super) const INODE: i16 = -56;
    /// Device (32 bits), then the mode (16 bits).
    pub(super) const DEVICE: i16 = -64;
    pub(super) const MODE: i16 = -60;
    pub(super) const PATH: i16 = -72;
    /// The directory where a path begins. Of a request: when the program began to wait for it.
    pub(super) const DIRECTORY: i16 = -80;
    pub(super) const CONTEXT: i16 = -88;
    /// Of a completion.
    pub(super) const FLAGS: i16 = CLASS;
    pub(super) const KEY: i16 = -104;
    pub(super) const REQUEST: i16 = -152;
    pub(super) const BLOCK: i16 = -216;
}

const KIND_OF_FILE: i32 = 0o170_000;
const REGULAR: i32 = 0o100_000;
const WORKING_DIRECTORY: i32 = -100;
/// Handing an event over wakes nobody: the reader looks by itself.
const NO_WAKE_UP: i32 = 1;
const MARK: i32 = 1;
/// Of the state of a thread: the call under way came through the door for programs of 32 bits.
const CALLS_AS_32_BITS: i32 = 2;

/// A program as the kernel takes it.
pub(crate) type Code = Vec<[u8; 8]>;

struct Build<'a> {
    asm: Asm,
    layout: &'a Layout,
    maps: &'a Maps,
    out: Label,
}

fn build(layout: &Layout, maps: &Maps, fill: impl FnOnce(&mut Build<'_>)) -> Option<Code> {
    let mut asm = Asm::default();
    let out = asm.label();
    let mut program = Build { asm, layout, maps, out };
    fill(&mut program);
    program.asm.bind(program.out);
    program.asm.exit();
    program.asm.finish()
}

use Width::{W8, W16, W32, W64};

impl Build<'_> {
    fn map(&mut self, dst: Reg, map: &OwnedFd) {
        self.asm.map(dst, map.as_raw_fd());
    }

    /// R0: what belongs to the current task. Leaves if it is not marked.
    fn of_current(&mut self) {
        self.asm.call(helper::CURRENT);
        self.asm.set(R2, R0);
        self.of_task(0);
        self.asm.jump(If::Equal, R0, 0, self.out);
    }

    /// R0: what belongs to the task in R2.
    fn of_task(&mut self, flags: i32) {
        let tasks = self.maps.tasks.as_raw_fd();
        self.asm.map(R1, tasks);
        self.asm.set(R3, 0);
        self.asm.set(R4, flags);
        self.asm.call(helper::OF_TASK);
    }

    /// Adds the number in R1 to a loss, and goes on.
    fn lose(&mut self, what: i16) {
        self.asm.map_value(R2, self.maps.lost.as_raw_fd());
        self.asm.atomic_add(R2, what, R1);
    }

    fn lose_one(&mut self, what: i16) {
        self.asm.set(R1, 1);
        self.lose(what);
    }

    /// R1: the class of the call whose number is in `number`. Leaves if it is none of ours.
    fn class_of(&mut self, number: Reg) {
        self.asm.jump(If::Above, number, N_CALLS as i32 - 1, self.out);
        self.asm.map_value(R1, self.maps.classes.as_raw_fd());
        self.asm.op(Op::Add, R1, number);
        self.asm.load(W8, R1, R1, 0);
        self.asm.jump(If::Equal, R1, 0, self.out);
    }

    /// Copies `size` bytes of the kernel's memory from R3 to the stack.
    fn peek(&mut self, to: i16, size: i32) {
        self.asm.stack(R1, i32::from(to));
        self.asm.set(R2, size);
        self.asm.call(helper::READ_KERNEL);
    }

    /// Copies `size` bytes from the field at `offset` of what the pointer on the stack points to.
    fn peek_field(&mut self, pointer: i16, offset: i16, to: i16, size: i32) {
        self.asm.load(W64, R3, FP, pointer);
        self.asm.op(Op::Add, R3, i32::from(offset));
        self.peek(to, size);
    }

    /// Finds what the descriptor in [`slot::FD`] is, and writes that to the stack; goes to `none` if it is nothing.
    fn file_of_descriptor(&mut self, none: Label) {
        let layout = self.layout;
        self.asm.call(helper::CURRENT);
        self.asm.load(W64, R1, R0, layout.task.files);
        self.asm.load(W64, R1, R1, layout.table);
        self.asm.load(W32, R2, R1, layout.table_size);
        self.asm.load(W64, R1, R1, layout.table_files);
        self.asm.load(W32, R3, FP, slot::FD);
        self.asm.jump(If::AtLeast, R3, R2, none);
        self.asm.op(Op::ShiftLeft, R3, 3);
        self.asm.op(Op::Add, R3, R1);
        match layout.cast {
            Some(cast) => {
                self.asm.set(R1, R3);
                self.asm.set(R2, cast.pointer as i32);
                self.asm.call_kernel(cast.function);
                self.asm.load(W64, R3, R0, 0);
            }
            None => {
                self.peek(slot::SCRATCH, 8);
                self.asm.load(W64, R3, FP, slot::SCRATCH);
            }
        }
        self.asm.jump(If::Equal, R3, 0, none);
        self.file_at();
    }

    /// The same, of the file whose address is in R3.
    fn file_at(&mut self) {
        let file = &self.layout.file;
        if let Some(cast) = self.layout.cast {
            self.asm.set(R1, R3);
            self.asm.set(R2, cast.file as i32);
            self.asm.call_kernel(cast.function);
            self.asm.load(W64, R1, R0, file.position);
            self.asm.store(W64, FP, slot::POSITION, R1);
            self.asm.load(W64, R1, R0, file.inode);
            self.asm.load(W16, R2, R1, file.mode);
            self.asm.store(W16, FP, slot::MODE, R2);
            self.asm.load(W64, R2, R1, file.number);
            self.asm.store(W64, FP, slot::INODE, R2);
            self.asm.load(W64, R1, R1, file.file_system);
            self.asm.load(W32, R2, R1, file.device);
            self.asm.store(W32, FP, slot::DEVICE, R2);
            return;
        }
        self.asm.store(W64, FP, slot::SCRATCH, R3);
        self.peek_field(slot::SCRATCH, file.position, slot::POSITION, 8);
        self.peek_field(slot::SCRATCH, file.inode, slot::SCRATCH, 8);
        self.peek_field(slot::SCRATCH, file.mode, slot::MODE, 2);
        self.peek_field(slot::SCRATCH, file.number, slot::INODE, 8);
        self.peek_field(slot::SCRATCH, file.file_system, slot::SCRATCH, 8);
        self.peek_field(slot::SCRATCH, file.device, slot::DEVICE, 4);
    }

    /// Goes to `other` if the file on the stack is no regular one.
    fn only_regular(&mut self, other: Label) {
        self.asm.load(W16, R1, FP, slot::MODE);
        self.asm.op(Op::And, R1, KIND_OF_FILE);
        self.asm.jump(If::NotEqual, R1, REGULAR, other);
    }

    /// R8: room for an event. Where there is none, that is counted, and the program left.
    fn reserve(&mut self, kind: u32, size: usize) {
        let there = self.asm.label();
        self.map(R1, &self.maps.ring);
        self.asm.set(R2, size as i32);
        self.asm.set(R3, 0);
        self.asm.call(helper::RESERVE);
        self.asm.jump(If::NotEqual, R0, 0, there);
        self.lose_one(lost::RING_FULL);
        self.asm.goto(self.out);
        self.asm.bind(there);
        self.asm.set(R8, R0);
        self.asm.store(W32, R8, at::KIND, kind as i32);
        self.asm.call(helper::THREAD);
        self.asm.store(W64, R8, at::THREAD, R0);
    }

    fn submit(&mut self) {
        self.asm.set(R1, R8);
        self.asm.set(R2, NO_WAKE_UP);
        self.asm.call(helper::SUBMIT);
    }

    fn copy(&mut self, from: Reg, offset: i16, to: i16) {
        self.asm.load(W64, R1, from, offset);
        self.asm.store(W64, R8, to, R1);
    }

    /// Fills in the call that has ended: its times, its result, its file, its arguments.
    fn fill_call(&mut self, second: i16) {
        self.asm.load(W64, R1, FP, slot::CALL);
        self.asm.store(W32, R8, at::CALL, R1);
        self.copy(R9, task::START, at::START);
        self.copy(FP, slot::NOW, at::END);
        self.asm.store(W64, R8, at::RESULT, R7);
        self.fill_file();
        for (register, to) in [(second, at::SECOND), (regs::R10, at::FOURTH), (regs::R9, at::SIXTH)] {
            self.copy(R6, register, to);
        }
    }

    fn fill_file(&mut self) {
        self.copy(FP, slot::POSITION, at::POSITION);
        self.copy(FP, slot::INODE, at::INODE);
        for (from, to) in [(slot::DEVICE, at::DEVICE), (slot::FD, at::FD)] {
            self.asm.load(W32, R1, FP, from);
            self.asm.store(W32, R8, to, R1);
        }
    }

    /// Writes the event of a call whose file is on the stack.
    fn put_call(&mut self) {
        self.put_side(KIND_CALL, regs::SI);
    }

    /// The same, with what is in the register `second` in the place of the second argument.
    fn put_side(&mut self, kind: u32, second: i16) {
        self.reserve(kind, event::HEAD);
        self.fill_call(second);
        self.submit();
    }

    /// Copies the path that the program named behind the event.
    fn read_path(&mut self, room: usize) {
        self.asm.set(R1, R8);
        self.asm.op(Op::Add, R1, event::HEAD as i32);
        self.asm.set(R2, room as i32);
        self.asm.load(W64, R3, FP, slot::PATH);
        self.asm.call(helper::READ_USER_TEXT);
        self.asm.store(W64, R8, at::SIXTH, R0);
        self.copy(FP, slot::DIRECTORY, at::SECOND);
    }

    /// Writes the event of a call with a path: a short event, or a long one if the path is long.
    fn put_path(&mut self) {
        let (fits, done) = (self.asm.label(), self.asm.label());
        self.reserve(KIND_CALL, event::HEAD + event::SHORT_PATH);
        self.fill_call(regs::SI);
        self.read_path(event::SHORT_PATH);
        self.asm.jump(If::NotEqual, R0, event::SHORT_PATH as i32, fits);
        self.asm.set(R1, R8);
        self.asm.set(R2, NO_WAKE_UP);
        self.asm.call(helper::DISCARD);
        self.reserve(KIND_CALL, event::HEAD + event::LONG_PATH);
        self.fill_call(regs::SI);
        self.read_path(event::LONG_PATH);
        self.submit();
        self.asm.goto(done);
        self.asm.bind(fits);
        self.submit();
        self.asm.bind(done);
    }

    /// Takes the descriptor from a register of the call.
    fn descriptor(&mut self, register: i16) {
        self.asm.load(W64, R1, R6, register);
        self.asm.store(W64, FP, slot::FD, R1);
    }

    /// Goes on as the program that walks a batch.
    fn go_on(&mut self, list: usize, program: i32) {
        self.asm.load(W64, R1, FP, slot::CONTEXT);
        self.map(R2, &self.maps.batches[list]);
        self.asm.set(R3, program);
        self.asm.call(helper::GO_ON);
    }

    /// Nothing is known of a file.
    fn no_file(&mut self) {
        for place in [slot::FD, slot::POSITION, slot::INODE, slot::DEVICE] {
            self.asm.store(W64, FP, place, 0);
        }
    }

    fn keep_now(&mut self) {
        self.asm.call(helper::TIME);
        self.asm.store(W64, FP, slot::NOW, R0);
    }
}

/// The program where system calls begin.
pub(crate) fn enter(layout: &Layout, maps: &Maps) -> Option<Code> {
    build(layout, maps, |p| {
        let (native, is_close, is_batch) = (p.asm.label(), p.asm.label(), p.asm.label());
        p.asm.store(W64, FP, slot::CONTEXT, R1);
        p.asm.load(W64, R6, R1, 0);
        p.asm.load(W64, R7, R1, 8);
        p.class_of(R7);
        p.asm.set(R8, R1);
        p.asm.call(helper::CURRENT);
        p.asm.set(R9, R0);
        p.asm.set(R2, R0);
        p.of_task(0);
        p.asm.jump(If::Equal, R0, 0, p.out);
        p.asm.load(W32, R1, R9, p.layout.task.status);
        p.asm.set(R9, R0);
        p.asm.op(Op::And, R1, CALLS_AS_32_BITS);
        p.asm.jump(If::Equal, R1, 0, native);
        // Other numbers: what they mean is known of those that move data, and that is a loss.
        p.asm.store(W64, R9, task::CALL, 0);
        p.asm.op(Op::And, R8, i32::from(FOREIGN));
        p.asm.jump(If::Equal, R8, 0, p.out);
        p.lose_one(lost::FOREIGN);
        p.asm.goto(p.out);
        p.asm.bind(native);
        p.asm.op(Op::And, R8, i32::from(!FOREIGN));
        p.asm.call(helper::TIME);
        p.asm.store(W64, R9, task::START, R0);
        p.asm.op(Op::Add, R7, 1);
        p.asm.store(W64, R9, task::CALL, R7);
        p.asm.jump(If::Equal, R8, Class::Close as i32, is_close);
        p.asm.jump(If::Equal, R8, Class::Submit as i32, is_batch);
        p.asm.goto(p.out);
        p.asm.bind(is_close);
        // When the call has ended, its descriptor is nobody's.
        let other = p.asm.label();
        p.no_file();
        p.descriptor(regs::DI);
        p.file_of_descriptor(other);
        p.only_regular(other);
        for (from, to) in
            [(slot::INODE, task::INODE), (slot::DEVICE, task::DEVICE), (slot::POSITION, task::POSITION)]
        {
            p.asm.load(W64, R1, FP, from);
            p.asm.store(W64, R9, to, R1);
        }
        p.asm.goto(p.out);
        p.asm.bind(other);
        p.asm.store(W64, R9, task::CALL, 0);
        p.asm.goto(p.out);
        p.asm.bind(is_batch);
        p.asm.store(W64, R9, task::WALKED, 0);
        p.go_on(0, 0);
    })
}

/// The program where system calls end.
pub(crate) fn exit(layout: &Layout, maps: &Maps) -> Option<Code> {
    build(layout, maps, |p| {
        begin_exit(p);
        let classes = [
            (Class::File, None),
            (Class::Map, Some(regs::R8)),
            (Class::Close, None),
            (Class::Open, None),
            (Class::OpenAt, None),
            (Class::Path, None),
            (Class::PathAt, None),
            (Class::Send, None),
            (Class::Copy, None),
            (Class::Bare, None),
            (Class::Submit, None),
            (Class::Completed, None),
        ];
        let labels = classes.map(|_| p.asm.label());
        p.asm.load(W64, R1, FP, slot::CLASS);
        for ((class, _), label) in classes.iter().zip(labels) {
            p.asm.jump(If::Equal, R1, *class as i32, label);
        }
        p.asm.goto(p.out);
        for ((class, _), label) in classes.iter().zip(labels) {
            p.asm.bind(label);
            exit_of(p, *class);
            p.asm.goto(p.out);
        }
    })
}

/// R6: the registers, R7: the result, R9: what belongs to the task. Leaves if the call is none of ours.
fn begin_exit(p: &mut Build<'_>) {
    p.asm.store(W64, FP, slot::CONTEXT, R1);
    p.asm.load(W64, R6, R1, 0);
    p.asm.load(W64, R7, R1, 8);
    p.asm.load(W64, R8, R6, regs::NUMBER);
    p.class_of(R8);
    p.asm.op(Op::And, R1, i32::from(!FOREIGN));
    p.asm.store(W64, FP, slot::CALL, R8);
    p.asm.store(W64, FP, slot::CLASS, R1);
    p.of_current();
    p.asm.set(R9, R0);
    p.asm.load(W64, R1, R9, task::CALL);
    p.asm.op(Op::Add, R8, 1);
    p.asm.jump(If::NotEqual, R1, R8, p.out);
    p.asm.store(W64, R9, task::CALL, 0);
    p.keep_now();
    p.no_file();
}

fn exit_of(p: &mut Build<'_>, class: Class) {
    match class {
        Class::File | Class::Map => {
            p.descriptor(if class == Class::Map { regs::R8 } else { regs::DI });
            p.file_of_descriptor(p.out);
            p.only_regular(p.out);
            if class == Class::Map {
                // Where the descriptor stands says nothing here; how it is protected does.
                p.asm.load(W64, R1, R6, regs::DX);
                p.asm.store(W64, FP, slot::POSITION, R1);
            }
            p.put_call();
        }
        Class::Close => {
            for (from, to) in
                [(task::INODE, slot::INODE), (task::DEVICE, slot::DEVICE), (task::POSITION, slot::POSITION)]
            {
                p.asm.load(W64, R1, R9, from);
                p.asm.store(W64, FP, to, R1);
            }
            p.descriptor(regs::DI);
            p.put_call();
        }
        Class::Open | Class::OpenAt => {
            p.asm.jump(If::SignedBelow, R7, 0, p.out);
            p.asm.store(W64, FP, slot::FD, R7);
            p.file_of_descriptor(p.out);
            p.only_regular(p.out);
            path_of(p, class == Class::OpenAt);
            p.put_path();
        }
        Class::Path | Class::PathAt => {
            p.asm.jump(If::SignedBelow, R7, 0, p.out);
            path_of(p, class == Class::PathAt);
            p.put_path();
        }
        Class::Send => between(p, regs::SI, regs::DI, regs::DX),
        Class::Copy => between(p, regs::DI, regs::DX, regs::SI),
        Class::Bare => {
            p.asm.jump(If::SignedBelow, R7, 0, p.out);
            p.descriptor(regs::DI);
            p.put_call();
        }
        Class::Submit => {
            let some = p.asm.label();
            libaio::lose_rest_of_batch(p);
            p.asm.load(W64, R1, R6, regs::SI);
            p.asm.jump(If::Equal, R7, R1, p.out);
            // Those that were not taken have not begun.
            p.asm.jump(If::SignedAtLeast, R7, 0, some);
            p.asm.set(R7, 0);
            p.asm.bind(some);
            p.asm.store(W64, R9, task::WALKED, R7);
            p.go_on(1, 0);
        }
        Class::Completed => {
            libaio::lose_rest_of_batch(p);
            p.asm.store(W64, R9, task::WALKED, 0);
            p.go_on(1, 1);
        }
    }
}

/// Notes the path that the program named, and the directory where it begins.
fn path_of(p: &mut Build<'_>, has_directory: bool) {
    let path = if has_directory { regs::SI } else { regs::DI };
    p.asm.load(W64, R1, R6, path);
    p.asm.store(W64, FP, slot::PATH, R1);
    if has_directory {
        p.asm.load(W64, R1, R6, regs::DI);
        p.asm.store(W64, FP, slot::DIRECTORY, R1);
    } else {
        p.asm.store(W64, FP, slot::DIRECTORY, WORKING_DIRECTORY);
    }
}

/// Writes one event for each side of a call that copies from one descriptor to another; `kept` says where the program keeps the offset of
/// the side that is read.
fn between(p: &mut Build<'_>, from: i16, to: i16, kept: i16) {
    for (register, kind) in [(from, event::KIND_READ_SIDE), (to, event::KIND_WRITE_SIDE)] {
        let next = p.asm.label();
        p.descriptor(register);
        p.file_of_descriptor(next);
        p.only_regular(next);
        p.put_side(kind, kept);
        p.asm.bind(next);
    }
}

/// The program that stands where tasks are made: a mark is handed on.
pub(crate) fn new_task(layout: &Layout, maps: &Maps) -> Option<Code> {
    build(layout, maps, |p| {
        p.asm.load(W64, R6, R1, 0);
        p.of_current();
        p.asm.set(R2, R6);
        p.of_task(MARK);
        p.reserve(KIND_TASK, event::HEAD);
        p.asm.call(helper::TIME);
        p.asm.store(W64, R8, at::START, R0);
        p.asm.load(W32, R1, R6, p.layout.task.tid);
        p.asm.store(W64, R8, at::RESULT, R1);
        p.asm.load(W32, R1, R6, p.layout.task.pid);
        p.asm.store(W64, R8, at::INODE, R1);
        p.submit();
    })
}

/// The program that stands where a task ends.
pub(crate) fn end(layout: &Layout, maps: &Maps) -> Option<Code> {
    build(layout, maps, |p| {
        p.of_current();
        p.reserve(KIND_END, event::HEAD);
        p.asm.call(helper::TIME);
        p.asm.store(W64, R8, at::START, R0);
        p.submit();
    })
}

/// The program that stands where a process has become another program.
pub(crate) fn exec(layout: &Layout, maps: &Maps) -> Option<Code> {
    build(layout, maps, |p| {
        let (whole, fits, read, failed) = (p.asm.label(), p.asm.label(), p.asm.label(), p.asm.label());
        p.asm.load(W64, R7, R1, 16);
        p.of_current();
        p.asm.store(W64, R0, task::CALL, 0);
        p.reserve(KIND_EXEC, event::HEAD + event::PROGRAM + event::ARGUMENTS);
        p.asm.call(helper::TIME);
        p.asm.store(W64, R8, at::START, R0);
        p.asm.call(helper::USER);
        p.asm.store(W64, R8, at::INODE, R0);
        p.asm.load(W64, R3, R7, p.layout.program_name);
        p.asm.set(R1, R8);
        p.asm.op(Op::Add, R1, event::HEAD as i32);
        p.asm.set(R2, event::PROGRAM as i32);
        p.asm.call(helper::READ_KERNEL_TEXT);
        p.asm.store(W64, R8, at::SIXTH, R0);
        p.asm.call(helper::CURRENT);
        p.asm.load(W64, R1, R0, p.layout.task.parent);
        p.asm.load(W32, R1, R1, p.layout.task.pid);
        p.asm.store(W64, R8, at::RESULT, R1);
        p.asm.load(W64, R1, R0, p.layout.task.rights);
        p.asm.load(W32, R1, R1, p.layout.task.acts_as);
        p.asm.store(W64, R8, at::POSITION, R1);
        p.asm.load(W64, R1, R0, p.layout.task.memory);
        p.asm.load(W64, R3, R1, p.layout.arguments.0);
        p.asm.load(W64, R2, R1, p.layout.arguments.1);
        p.asm.op(Op::Sub, R2, R3);
        p.asm.set(R6, R2);
        p.asm.jump(If::Above, R6, event::ARGUMENTS as i32, whole);
        p.asm.goto(fits);
        p.asm.bind(whole);
        p.asm.set(R6, event::ARGUMENTS as i32);
        p.asm.bind(fits);
        p.asm.set(R1, R8);
        p.asm.op(Op::Add, R1, (event::HEAD + event::PROGRAM) as i32);
        p.asm.set(R2, R6);
        p.asm.call(helper::READ_USER);
        p.asm.jump(If::NotEqual, R0, 0, failed);
        p.asm.store(W64, R8, at::SECOND, R6);
        p.asm.goto(read);
        p.asm.bind(failed);
        p.asm.store(W64, R8, at::SECOND, 0);
        p.asm.bind(read);
        p.submit();
    })
}
