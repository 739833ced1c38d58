//! Programs for requests of libaio, which come in batches: one program walks a part of a batch and goes on as another.

use super::*;

/// Requests of a batch that one program walks; it then goes on as another, up to 33 times.
const PER_WALK: i32 = 16;
/// How often one program may go on as another.
const WALKS: i32 = 33;

/// Where the parts of a request and of a completion stand.
mod part {
    pub(super) const OPCODE: i16 = 16;
    pub(super) const FD: i16 = 20;
    pub(super) const POSITION: i16 = 40;
    pub(super) const REQUEST_SIZE: i32 = 64;
    pub(super) const DONE: i16 = 8;
    pub(super) const RESULT: i16 = 16;
    pub(super) const COMPLETION_SIZE: i32 = 32;
    /// Bits of the opcodes that are recorded: reads, writes and syncs.
    pub(super) const RECORDED: i32 = 0x18f;
}

/// The program that notes the requests of a batch of libaio before they begin.
pub(crate) fn batch_begins(layout: &Layout, maps: &Maps) -> Option<Code> {
    build(layout, maps, |p| {
        p.begin_walk();
        p.asm.set(R9, R0);
        p.walk(|p, next| {
            p.asm.load(W64, R1, R6, regs::SI);
            p.asm.jump(If::SignedAtLeast, R7, R1, p.out);
            p.read_entry(regs::DX, 3, slot::PATH, 8, next);
            p.asm.load(W64, R3, FP, slot::PATH);
            p.read_user(slot::BLOCK, part::REQUEST_SIZE, next);
            p.asm.load(W16, R8, FP, slot::BLOCK + part::OPCODE);
            p.asm.jump(If::Above, R8, 8, next);
            p.asm.set(R1, 1);
            p.asm.op(Op::ShiftLeft, R1, R8);
            p.asm.op(Op::And, R1, part::RECORDED);
            p.asm.jump(If::Equal, R1, 0, next);
            p.asm.load(W32, R1, FP, slot::BLOCK + part::FD);
            p.asm.store(W64, FP, slot::FD, R1);
            p.asm.store(W64, FP, slot::REQUEST + request::FD, R1);
            p.file_of_descriptor(next);
            p.only_regular(next);
            p.keep_key(slot::PATH);
            p.asm.load(W64, R1, R9, task::START);
            p.asm.store(W64, FP, slot::REQUEST + request::START, R1);
            for (from, to) in
                [(slot::BLOCK + part::POSITION, request::POSITION), (slot::INODE, request::INODE)]
            {
                p.asm.load(W64, R1, FP, from);
                p.asm.store(W64, FP, slot::REQUEST + to, R1);
            }
            p.asm.load(W32, R1, FP, slot::DEVICE);
            p.asm.store(W32, FP, slot::REQUEST + request::DEVICE, R1);
            p.asm.op(Op::Add, R8, crate::calls::LIBAIO as i32);
            p.asm.store(W32, FP, slot::REQUEST + request::CALL, R8);
            p.keep_request();
        });
        p.go_on(0, 0);
    })
}

/// The program that forgets the requests of a batch that were not taken.
pub(crate) fn batch_refused(layout: &Layout, maps: &Maps) -> Option<Code> {
    build(layout, maps, |p| {
        p.begin_walk();
        p.walk(|p, next| {
            p.asm.load(W64, R1, R6, regs::SI);
            p.asm.jump(If::SignedAtLeast, R7, R1, p.out);
            p.read_entry(regs::DX, 3, slot::PATH, 8, next);
            p.keep_key(slot::PATH);
            p.forget_request();
        });
        p.go_on(1, 0);
    })
}

/// The program that writes the events of requests of libaio that are complete.
pub(crate) fn batch_ends(layout: &Layout, maps: &Maps) -> Option<Code> {
    build(layout, maps, |p| {
        let waits = p.asm.label();
        p.begin_walk();
        p.asm.load(W64, R8, R0, task::START);
        p.asm.store(W64, FP, slot::DIRECTORY, R8);
        p.keep_now();
        // Who asks for none looks only, and does not wait.
        p.asm.load(W64, R1, R6, regs::SI);
        p.asm.jump(If::NotEqual, R1, 0, waits);
        p.asm.store(W64, FP, slot::DIRECTORY, R0);
        p.asm.bind(waits);
        p.no_file();
        p.walk(|p, next| {
            p.asm.load(W64, R1, FP, slot::CONTEXT);
            p.asm.load(W64, R1, R1, 8);
            p.asm.jump(If::SignedAtLeast, R7, R1, p.out);
            p.read_entry(regs::R10, 5, slot::BLOCK, part::COMPLETION_SIZE, next);
            p.keep_key(slot::BLOCK + part::DONE);
            p.find_request(next);
            p.asm.set(R9, R0);
            for (from, to) in [(request::INODE, slot::INODE), (request::FD, slot::FD)] {
                p.asm.load(W64, R1, R9, from);
                p.asm.store(W64, FP, to, R1);
            }
            p.asm.load(W32, R1, R9, request::DEVICE);
            p.asm.store(W32, FP, slot::DEVICE, R1);
            p.asm.store(W64, FP, slot::PATH, R7);
            p.asm.load(W64, R7, FP, slot::BLOCK + part::RESULT);
            p.put_request();
            p.asm.load(W64, R7, FP, slot::PATH);
            p.forget_request();
        });
        p.go_on(1, 1);
    })
}

/// Counts as lost what no program walks any more.
pub(super) fn lose_rest_of_batch(p: &mut Build<'_>) {
    let whole = p.asm.label();
    p.asm.jump(If::SignedBelow, R7, PER_WALK * WALKS + 1, whole);
    p.asm.set(R1, R7);
    p.asm.op(Op::Sub, R1, PER_WALK * WALKS);
    p.lose(lost::BATCH);
    p.asm.bind(whole);
}

impl Build<'_> {
    /// Begins to walk a batch: R6 has the registers, R7 how far it has been walked.
    fn begin_walk(&mut self) {
        self.asm.store(W64, FP, slot::CONTEXT, R1);
        self.asm.load(W64, R6, R1, 0);
        self.of_current();
        self.asm.load(W64, R7, R0, task::WALKED);
    }

    /// Walks as many entries of a batch as one program does; `entry` handles the one whose number is in R7, and may go to the label.
    fn walk(&mut self, mut entry: impl FnMut(&mut Self, Label)) {
        let (again, next, more) = (self.asm.label(), self.asm.label(), self.asm.label());
        self.asm.store(W64, FP, slot::CLASS, 0);
        self.asm.bind(again);
        self.asm.load(W64, R1, FP, slot::CLASS);
        self.asm.jump(If::AtLeast, R1, PER_WALK, more);
        self.asm.op(Op::Add, R1, 1);
        self.asm.store(W64, FP, slot::CLASS, R1);
        entry(self, next);
        self.asm.bind(next);
        // All ways here leave the same behind: the verifier then walks one of them, in a fifth of the time.
        self.asm.set(R8, 0);
        let places = [slot::PATH, slot::DEVICE, slot::INODE, slot::POSITION, slot::SCRATCH, slot::FD];
        for place in (slot::BLOCK..slot::CONTEXT).step_by(8).chain(places) {
            self.asm.store(W64, FP, place, R8);
        }
        self.asm.op(Op::Add, R7, 1);
        self.asm.goto(again);
        self.asm.bind(more);
        self.of_current();
        self.asm.store(W64, R0, task::WALKED, R7);
    }

    /// Copies `size` bytes of the process, from entry R7 of an array at the register, to the stack.
    fn read_entry(&mut self, register: i16, shift: i32, to: i16, size: i32, none: Label) {
        self.asm.set(R3, R7);
        self.asm.op(Op::ShiftLeft, R3, shift);
        self.asm.load(W64, R1, R6, register);
        self.asm.op(Op::Add, R3, R1);
        self.read_user(to, size, none);
    }

    fn read_user(&mut self, to: i16, size: i32, none: Label) {
        self.asm.stack(R1, i32::from(to));
        self.asm.set(R2, size);
        self.asm.call(helper::READ_USER);
        self.asm.jump(If::NotEqual, R0, 0, none);
    }

    /// The key of a request of libaio whose address is at `from`.
    fn keep_key(&mut self, from: i16) {
        self.asm.load(W64, R1, FP, from);
        self.asm.store(W64, FP, slot::KEY, R1);
        self.asm.call(helper::THREAD);
        self.asm.op(Op::ShiftRight, R0, 32);
        self.asm.store(W64, FP, slot::KEY + 8, R0);
    }
}
