//! Requests under way: kept in a map of the kernel from where they begin to where they are complete.

use std::os::fd::AsRawFd;

use super::*;

impl Build<'_> {
    fn key(&mut self) {
        let requests = self.maps.requests.as_raw_fd();
        self.asm.map(R1, requests);
        self.asm.stack(R2, i32::from(slot::KEY));
    }

    /// Keeps the request on the stack, under the key there, as one of the current thread.
    pub(super) fn keep_request(&mut self) {
        let kept = self.asm.label();
        self.asm.call(helper::THREAD);
        self.asm.store(W64, FP, slot::REQUEST + request::THREAD, R0);
        self.key();
        self.asm.stack(R3, i32::from(slot::REQUEST));
        self.asm.set(R4, 0);
        self.asm.call(helper::UPDATE);
        self.asm.jump(If::Equal, R0, 0, kept);
        self.lose_one(lost::REQUESTS);
        self.asm.bind(kept);
    }

    /// R0: the request of the key on the stack. Goes to `none` if there is none.
    pub(super) fn find_request(&mut self, none: Label) {
        self.key();
        self.asm.call(helper::LOOK_UP);
        self.asm.jump(If::Equal, R0, 0, none);
    }

    pub(super) fn forget_request(&mut self) {
        self.key();
        self.asm.call(helper::DELETE);
    }

    /// Writes the event of the request in R9 with the result in R7 and the file on the stack.
    pub(super) fn put_request(&mut self) {
        self.reserve(KIND_CALL, event::HEAD);
        self.asm.load(W32, R1, R9, request::CALL);
        self.asm.store(W32, R8, at::CALL, R1);
        self.copy(R9, request::THREAD, at::THREAD);
        self.copy(R9, request::START, at::START);
        self.copy(FP, slot::NOW, at::END);
        self.asm.store(W64, R8, at::RESULT, R7);
        self.fill_file();
        self.copy(R9, request::POSITION, at::POSITION);
        self.copy(FP, slot::DIRECTORY, at::SECOND);
        self.submit();
    }
}
