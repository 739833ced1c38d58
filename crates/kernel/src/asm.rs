//! An assembler for programs of the kernel's virtual machine.
//!
//! A jump names a label, which may be bound later; [`Asm::finish`] puts the distances in.

/// A register: 0 holds results, 1 to 5 arguments (lost in calls), 6 to 9 stay, 10 is the stack's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reg(pub(crate) u8);

pub(crate) const R0: Reg = Reg(0);
pub(crate) const R1: Reg = Reg(1);
pub(crate) const R2: Reg = Reg(2);
pub(crate) const R3: Reg = Reg(3);
pub(crate) const R4: Reg = Reg(4);
pub(crate) const R6: Reg = Reg(6);
pub(crate) const R7: Reg = Reg(7);
pub(crate) const R8: Reg = Reg(8);
pub(crate) const R9: Reg = Reg(9);
/// The end of the stack; what is kept there lies below it.
pub(crate) const FP: Reg = Reg(10);

/// A second operand.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operand {
    Reg(Reg),
    Number(i32),
}

impl From<Reg> for Operand {
    fn from(reg: Reg) -> Self {
        Self::Reg(reg)
    }
}

impl From<i32> for Operand {
    fn from(number: i32) -> Self {
        Self::Number(number)
    }
}

/// Width of a value in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Width {
    W32 = 0x00,
    W16 = 0x08,
    W8 = 0x10,
    W64 = 0x18,
}

/// Arithmetic on 64 bits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Add = 0x00,
    Sub = 0x10,
    And = 0x50,
    ShiftLeft = 0x60,
    ShiftRight = 0x70,
    Move = 0xb0,
}

/// When to jump.
#[derive(Clone, Copy, Debug)]
pub(crate) enum If {
    Equal = 0x10,
    /// Without sign.
    Above = 0x20,
    /// Without sign.
    AtLeast = 0x30,
    NotEqual = 0x50,
    /// With sign.
    SignedAtLeast = 0x70,
    /// With sign.
    SignedBelow = 0xc0,
}

/// A place in the program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Label(usize);

/// Program under construction.
#[derive(Debug, Default)]
pub(crate) struct Asm {
    code: Vec<[u8; 8]>,
    labels: Vec<Option<usize>>,
    /// Jumps whose distance is still to be put in: (instruction, label).
    open: Vec<(usize, Label)>,
}

const PSEUDO_MAP: u8 = 1;
const PSEUDO_MAP_VALUE: u8 = 2;
const PSEUDO_KERNEL_FUNCTION: u8 = 2;

impl Asm {
    fn push(&mut self, code: u8, dst: Reg, src: u8, offset: i16, number: i32) {
        let [o0, o1] = offset.to_le_bytes();
        let [n0, n1, n2, n3] = number.to_le_bytes();
        self.code.push([code, dst.0 | src << 4, o0, o1, n0, n1, n2, n3]);
    }

    /// `dst = dst op with`
    pub(crate) fn op(&mut self, op: Op, dst: Reg, with: impl Into<Operand>) {
        match with.into() {
            Operand::Reg(src) => self.push(0x0f | op as u8, dst, src.0, 0, 0),
            Operand::Number(number) => self.push(0x07 | op as u8, dst, 0, 0, number),
        }
    }

    /// `dst = from`
    pub(crate) fn set(&mut self, dst: Reg, from: impl Into<Operand>) {
        self.op(Op::Move, dst, from);
    }

    /// The lower half of `dst`, as a number with a sign.
    pub(crate) fn sign_extend_32(&mut self, dst: Reg) {
        self.op(Op::ShiftLeft, dst, 32);
        self.push(0xc7, dst, 0, 0, 32);
    }

    /// `dst = *(from + offset)`
    pub(crate) fn load(&mut self, width: Width, dst: Reg, from: Reg, offset: i16) {
        self.push(0x61 | width as u8, dst, from.0, offset, 0);
    }

    /// `*(to + offset) = from`
    pub(crate) fn store(&mut self, width: Width, to: Reg, offset: i16, from: impl Into<Operand>) {
        match from.into() {
            Operand::Reg(src) => self.push(0x63 | width as u8, to, src.0, offset, 0),
            Operand::Number(number) => self.push(0x62 | width as u8, to, 0, offset, number),
        }
    }

    /// `*(to + offset) += by`, as one step that nothing comes between.
    pub(crate) fn atomic_add(&mut self, to: Reg, offset: i16, by: Reg) {
        self.push(0xdb, to, by.0, offset, 0);
    }

    /// Writes the address `offset` bytes from the stack's end to `dst`.
    pub(crate) fn stack(&mut self, dst: Reg, offset: i32) {
        self.set(dst, FP);
        self.op(Op::Add, dst, offset);
    }

    fn wide(&mut self, dst: Reg, kind: u8, low: i32, high: i32) {
        self.push(0x18, dst, kind, 0, low);
        self.push(0, Reg(0), 0, 0, high);
    }

    /// A map, for a helper.
    pub(crate) fn map(&mut self, dst: Reg, map: i32) {
        self.wide(dst, PSEUDO_MAP, map, 0);
    }

    /// The address of the one value of a map.
    pub(crate) fn map_value(&mut self, dst: Reg, map: i32) {
        self.wide(dst, PSEUDO_MAP_VALUE, map, 0);
    }

    /// A number of 64 bits.
    pub(crate) fn set_wide(&mut self, dst: Reg, number: u64) {
        self.wide(dst, 0, number as i32, (number >> 32) as i32);
    }

    /// Calls a helper.
    pub(crate) fn call(&mut self, helper: i32) {
        self.push(0x85, Reg(0), 0, 0, helper);
    }

    /// Calls a function of the kernel by its BTF id.
    pub(crate) fn call_kernel(&mut self, id: u32) {
        self.push(0x85, Reg(0), PSEUDO_KERNEL_FUNCTION, 0, id as i32);
    }

    /// A new label, still without a place.
    pub(crate) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Gives a label its place: here.
    pub(crate) fn bind(&mut self, label: Label) {
        self.labels[label.0] = Some(self.code.len());
    }

    /// Goes to `label` if `a` and `b` compare so.
    pub(crate) fn jump(&mut self, when: If, a: Reg, b: impl Into<Operand>, label: Label) {
        self.open.push((self.code.len(), label));
        match b.into() {
            Operand::Reg(src) => self.push(0x0d | when as u8, a, src.0, 0, 0),
            Operand::Number(number) => self.push(0x05 | when as u8, a, 0, 0, number),
        }
    }

    /// Goes to `label`.
    pub(crate) fn goto(&mut self, label: Label) {
        self.open.push((self.code.len(), label));
        self.push(0x05, Reg(0), 0, 0, 0);
    }

    /// Ends the program with 0.
    pub(crate) fn exit(&mut self) {
        self.set(R0, 0);
        self.push(0x95, Reg(0), 0, 0, 0);
    }

    /// Returns the program; `None` if a jump leads nowhere, or too far.
    pub(crate) fn finish(mut self) -> Option<Vec<[u8; 8]>> {
        for (at, label) in self.open {
            let to = self.labels[label.0]?;
            let distance = i16::try_from(to as i64 - at as i64 - 1).ok()?;
            self.code[at][2..4].copy_from_slice(&distance.to_le_bytes());
        }
        Some(self.code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_those_of_the_kernels_own_documentation() {
        let mut asm = Asm::default();
        let end = asm.label();
        asm.set(R6, R1);
        asm.load(Width::W64, R7, R6, 8);
        asm.jump(If::Above, R7, 511, end);
        asm.store(Width::W32, FP, -8, 3);
        asm.atomic_add(R0, 16, R1);
        asm.map(R1, 7);
        asm.call(131);
        asm.bind(end);
        asm.exit();
        let code = asm.finish().unwrap();
        let words: Vec<u64> = code.into_iter().map(u64::from_le_bytes).collect();
        assert_eq!(
            words,
            [
                0x0000_0000_0000_16bf,
                0x0000_0000_0008_6779,
                0x0000_01ff_0005_0725, // over store, add, map (two) and call
                0x0000_0003_fff8_0a62,
                0x0000_0000_0010_10db,
                0x0000_0007_0000_1118,
                0,
                0x0000_0083_0000_0085,
                0x0000_0000_0000_00b7,
                0x0000_0000_0000_0095,
            ]
        );
    }

    #[test]
    fn a_jump_to_nowhere_is_no_program() {
        let mut asm = Asm::default();
        let nowhere = asm.label();
        asm.goto(nowhere);
        assert!(asm.finish().is_none());
    }
}
