//! Programs for requests of an `io_uring`: one where they begin, one where they are complete.

use super::*;
use crate::layout::Uring;

/// The program that stands where a request of an `io_uring` begins.
pub(crate) fn uring_submit(layout: &Layout, uring: &Uring, maps: &Maps) -> Option<Code> {
    let recorded = (0..64).filter(|opcode| crate::calls::of_uring(*opcode).is_some());
    let recorded = recorded.fold(0, |mask, opcode| mask | 1u64 << opcode);
    build(layout, maps, |p| {
        p.asm.load(W64, R6, R1, 0);
        p.of_current();
        p.asm.load(W8, R7, R6, uring.opcode);
        p.asm.jump(If::Above, R7, 63, p.out);
        p.asm.set(R1, 1);
        p.asm.op(Op::ShiftLeft, R1, R7);
        p.asm.set_wide(R2, recorded);
        p.asm.op(Op::And, R1, R2);
        p.asm.jump(If::Equal, R1, 0, p.out);
        p.asm.store(W64, FP, slot::KEY, R6);
        p.asm.store(W64, FP, slot::KEY + 8, 0);
        p.asm.store(W64, FP, slot::SCRATCH, R6);
        p.peek_field(slot::SCRATCH, uring.position, slot::REQUEST + request::POSITION, 8);
        p.asm.store(W64, FP, slot::REQUEST + request::INODE, 0);
        p.asm.store(W64, FP, slot::REQUEST + request::FD, 0);
        p.asm.store(W32, FP, slot::REQUEST + request::DEVICE, 0);
        p.asm.op(Op::Add, R7, crate::calls::URING as i32);
        p.asm.store(W32, FP, slot::REQUEST + request::CALL, R7);
        p.asm.call(helper::TIME);
        p.asm.store(W64, FP, slot::REQUEST + request::START, R0);
        p.keep_request();
    })
}

/// The program that stands where one is complete.
pub(crate) fn uring_complete(layout: &Layout, uring: &Uring, maps: &Maps) -> Option<Code> {
    build(layout, maps, |p| {
        let (done, known) = (p.asm.label(), p.asm.label());
        p.asm.set(R8, R1);
        p.asm.load(W64, R6, R1, 8);
        p.asm.store(W64, FP, slot::KEY, R6);
        p.asm.store(W64, FP, slot::KEY + 8, 0);
        p.find_request(p.out);
        p.asm.set(R9, R0);
        if uring.has_structure {
            // The result (with a sign), then flags.
            p.asm.load(W64, R3, R8, 16);
            p.asm.op(Op::Add, R3, 8);
            p.peek(slot::SCRATCH, 8);
            p.asm.load(W32, R7, FP, slot::SCRATCH);
            p.asm.load(W32, R1, FP, slot::SCRATCH + 4);
        } else {
            p.asm.load(W64, R7, R8, 24);
            p.asm.load(W64, R1, R8, 32);
        }
        p.asm.sign_extend_32(R7);
        p.asm.store(W64, FP, slot::FLAGS, R1);
        p.keep_now();
        p.asm.store(W64, FP, slot::DIRECTORY, R0);
        p.no_file();
        p.asm.store(W64, FP, slot::PATH, R6);
        p.peek_field(slot::PATH, uring.file, slot::SCRATCH, 8);
        p.asm.load(W64, R3, FP, slot::SCRATCH);
        p.asm.jump(If::Equal, R3, 0, known);
        p.file_at();
        p.only_regular(done);
        p.asm.bind(known);
        p.put_request();
        // More will come of the same request.
        p.asm.load(W64, R1, FP, slot::FLAGS);
        p.asm.op(Op::And, R1, 2);
        p.asm.jump(If::NotEqual, R1, 0, p.out);
        p.asm.bind(done);
        p.forget_request();
    })
}
