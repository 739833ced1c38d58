//! Hooks of C streams.
//!
//! Bytes count when the program hands them to the stream. What the C library then moves to and from the system it does behind our back;
//! how much that was is told by what waits in the stream's buffer before and after each call, and recorded beneath it as nested. Small calls that follow each other closely are joined to one record with their number: a program that writes a file
//! character by character would otherwise make a trace forty times as large as the file.
//!
//! Characters through the macros of `putc_unlocked` and `getc_unlocked` are in [`crate::unlocked`]. Not seen: wide characters.

use core::ffi::{c_char, c_int, c_long, c_void};
use core::ptr::null;

use iotide_wire::{Call as Name, Flags, Layer, NO_POSITION, Op};
use libc::{FILE, off_t, size_t, ssize_t};

use crate::buffer::Work;
use crate::files::File;
use crate::guard::{KeepErrno, errno};
use crate::next::hooks;
use crate::observe::{push, record};
use crate::{buffer, clock, files, gate, sink, totals, unlocked};

unsafe extern "C" {
    static stdin: *mut FILE;
    static stdout: *mut FILE;
}

hooks! {
    fn fopen(path: *const c_char, mode: *const c_char) -> *mut FILE |next| { opening(const { call(Op::Open) }, path, mode, || next(path, mode)) }
    fn fopen64(path: *const c_char, mode: *const c_char) -> *mut FILE |next| { opening(const { call(Op::Open) }, path, mode, || next(path, mode)) }
    fn tmpfile() -> *mut FILE |next| { opening(const { call(Op::Open) }, null(), null(), || next()) }
    fn tmpfile64() -> *mut FILE |next| { opening(const { call(Op::Open) }, null(), null(), || next()) }
    fn freopen(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE |next| { files::forget(descriptor(stream)); opening(const { call(Op::Open) }, path, mode, || next(path, mode, stream)) }
    fn freopen64(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE |next| { files::forget(descriptor(stream)); opening(const { call(Op::Open) }, path, mode, || next(path, mode, stream)) }
    fn fclose(stream: *mut FILE) -> c_int |next| { closing(const { call(Op::Close) }, stream, || next(stream)) }

    fn fread(to: *mut c_void, size: size_t, n: size_t, stream: *mut FILE) -> size_t |next| { items(const { call(Op::Read) }, stream, size, n, || next(to, size, n, stream)) }
    fn fread_unlocked(to: *mut c_void, size: size_t, n: size_t, stream: *mut FILE) -> size_t |next| { items(const { call(Op::Read) }, stream, size, n, || next(to, size, n, stream)) }
    fn __fread_chk(to: *mut c_void, room: size_t, size: size_t, n: size_t, stream: *mut FILE) -> size_t |next| { items(const { call(Op::Read) }, stream, size, n, || next(to, room, size, n, stream)) }
    fn __fread_unlocked_chk(to: *mut c_void, room: size_t, size: size_t, n: size_t, stream: *mut FILE) -> size_t |next| { items(const { call(Op::Read) }, stream, size, n, || next(to, room, size, n, stream)) }
    fn fwrite(from: *const c_void, size: size_t, n: size_t, stream: *mut FILE) -> size_t |next| { items(const { call(Op::Write) }, stream, size, n, || next(from, size, n, stream)) }
    fn fwrite_unlocked(from: *const c_void, size: size_t, n: size_t, stream: *mut FILE) -> size_t |next| { items(const { call(Op::Write) }, stream, size, n, || next(from, size, n, stream)) }

    fn fputs(text: *const c_char, stream: *mut FILE) -> c_int |next| { text_out(const { call(Op::Write) }, stream, text, 0, || next(text, stream)) }
    fn fputs_unlocked(text: *const c_char, stream: *mut FILE) -> c_int |next| { text_out(const { call(Op::Write) }, stream, text, 0, || next(text, stream)) }
    fn puts(text: *const c_char) -> c_int |next| { text_out(const { call(Op::Write) }, stdout, text, 1, || next(text)) }
    fn fgets(to: *mut c_char, n: c_int, stream: *mut FILE) -> *mut c_char |next| { text_in(const { call(Op::Read) }, stream, || next(to, n, stream)) }
    fn fgets_unlocked(to: *mut c_char, n: c_int, stream: *mut FILE) -> *mut c_char |next| { text_in(const { call(Op::Read) }, stream, || next(to, n, stream)) }
    fn __fgets_chk(to: *mut c_char, room: size_t, n: c_int, stream: *mut FILE) -> *mut c_char |next| { text_in(const { call(Op::Read) }, stream, || next(to, room, n, stream)) }
    fn __fgets_unlocked_chk(to: *mut c_char, room: size_t, n: c_int, stream: *mut FILE) -> *mut c_char |next| { text_in(const { call(Op::Read) }, stream, || next(to, room, n, stream)) }
    fn getline(line: *mut *mut c_char, n: *mut size_t, stream: *mut FILE) -> ssize_t |next| { counted(const { call(Op::Read) }, stream, || next(line, n, stream)) }
    fn getdelim(line: *mut *mut c_char, n: *mut size_t, end: c_int, stream: *mut FILE) -> ssize_t |next| { counted(const { call(Op::Read) }, stream, || next(line, n, end, stream)) }
    fn __getdelim(line: *mut *mut c_char, n: *mut size_t, end: c_int, stream: *mut FILE) -> ssize_t |next| { counted(const { call(Op::Read) }, stream, || next(line, n, end, stream)) }

    fn fputc(c: c_int, stream: *mut FILE) -> c_int |next| { character(const { call(Op::Write) }, stream, || next(c, stream)) }
    fn putc(c: c_int, stream: *mut FILE) -> c_int |next| { character(const { call(Op::Write) }, stream, || next(c, stream)) }
    fn _IO_putc(c: c_int, stream: *mut FILE) -> c_int |next| { character(const { call(Op::Write) }, stream, || next(c, stream)) }
    fn fputc_unlocked(c: c_int, stream: *mut FILE) -> c_int |next| { character(const { call(Op::Write) }, stream, || next(c, stream)) }
    fn putc_unlocked(c: c_int, stream: *mut FILE) -> c_int |next| { character(const { call(Op::Write) }, stream, || next(c, stream)) }
    fn putchar(c: c_int) -> c_int |next| { character(const { call(Op::Write) }, stdout, || next(c)) }
    fn fgetc(stream: *mut FILE) -> c_int |next| { character(const { call(Op::Read) }, stream, || next(stream)) }
    fn getc(stream: *mut FILE) -> c_int |next| { character(const { call(Op::Read) }, stream, || next(stream)) }
    fn _IO_getc(stream: *mut FILE) -> c_int |next| { character(const { call(Op::Read) }, stream, || next(stream)) }
    fn fgetc_unlocked(stream: *mut FILE) -> c_int |next| { character(const { call(Op::Read) }, stream, || next(stream)) }
    fn getc_unlocked(stream: *mut FILE) -> c_int |next| { character(const { call(Op::Read) }, stream, || next(stream)) }
    fn getchar() -> c_int |next| { character(const { call(Op::Read) }, stdin, || next()) }

    fn putw(word: c_int, stream: *mut FILE) -> c_int |next| { word_of(const { call(Op::Write) }, stream, || { let result = next(word, stream); (result == 0, result) }) }
    fn getw(stream: *mut FILE) -> c_int |next| {
        // A word may look like the end of the file; then the stream tells.
        word_of(const { call(Op::Read) }, stream, || { let word = next(stream); (word != libc::EOF || libc::feof(stream) == 0 && libc::ferror(stream) == 0, word) })
    }

    fn vfprintf(stream: *mut FILE, format: *const c_char, arguments: *mut c_void) -> c_int |next| { counted(const { call(Op::Write) }, stream, || next(stream, format, arguments) as ssize_t) as c_int }
    fn vprintf(format: *const c_char, arguments: *mut c_void) -> c_int |next| { counted(const { call(Op::Write) }, stdout, || next(format, arguments) as ssize_t) as c_int }
    fn __vfprintf_chk(stream: *mut FILE, flag: c_int, format: *const c_char, arguments: *mut c_void) -> c_int |next| {
        counted(const { call(Op::Write) }, stream, || next(stream, flag, format, arguments) as ssize_t) as c_int
    }
    fn __vprintf_chk(flag: c_int, format: *const c_char, arguments: *mut c_void) -> c_int |next| { counted(const { call(Op::Write) }, stdout, || next(flag, format, arguments) as ssize_t) as c_int }
    fn vfscanf(stream: *mut FILE, format: *const c_char, arguments: *mut c_void) -> c_int |next| { scanned(const { call(Op::Read) }, stream, || next(stream, format, arguments)) }
    fn __isoc99_vfscanf(stream: *mut FILE, format: *const c_char, arguments: *mut c_void) -> c_int |next| { scanned(const { call(Op::Read) }, stream, || next(stream, format, arguments)) }
    fn __isoc23_vfscanf(stream: *mut FILE, format: *const c_char, arguments: *mut c_void) -> c_int |next| { scanned(const { call(Op::Read) }, stream, || next(stream, format, arguments)) }
    // A formatted write without a stream: the system's layer.
    fn vdprintf(fd: c_int, format: *const c_char, arguments: *mut c_void) -> c_int |next| {
        crate::observe::data(const { call(Op::Write) }, fd, crate::observe::ANYWHERE, || 0, || next(fd, format, arguments) as isize) as c_int
    }
    fn __vdprintf_chk(fd: c_int, flag: c_int, format: *const c_char, arguments: *mut c_void) -> c_int |next| {
        crate::observe::data(const { call(Op::Write) }, fd, crate::observe::ANYWHERE, || 0, || next(fd, flag, format, arguments) as isize) as c_int
    }

    fn fflush(stream: *mut FILE) -> c_int |next| { control(const { call(Op::Flush) }, stream, || next(stream)) }
    fn fflush_unlocked(stream: *mut FILE) -> c_int |next| { control(const { call(Op::Flush) }, stream, || next(stream)) }
    fn fseek(stream: *mut FILE, offset: c_long, whence: c_int) -> c_int |next| { control(const { call(Op::Seek) }, stream, || next(stream, offset, whence)) }
    fn fseeko(stream: *mut FILE, offset: off_t, whence: c_int) -> c_int |next| { control(const { call(Op::Seek) }, stream, || next(stream, offset, whence)) }
    fn fseeko64(stream: *mut FILE, offset: off_t, whence: c_int) -> c_int |next| { control(const { call(Op::Seek) }, stream, || next(stream, offset, whence)) }
    fn fsetpos(stream: *mut FILE, position: *const c_void) -> c_int |next| { control(const { call(Op::Seek) }, stream, || next(stream, position)) }
    fn fsetpos64(stream: *mut FILE, position: *const c_void) -> c_int |next| { control(const { call(Op::Seek) }, stream, || next(stream, position)) }
    fn rewind(stream: *mut FILE) -> c_int |next| { control(const { call(Op::Seek) }, stream, || next(stream)) }
}

/// The beginning of a stream as the GNU C library lays it out; part of its binary interface, since its macros once used it.
#[repr(C)]
struct Layout {
    flags: c_int,
    read_next: usize,
    read_end: usize,
    read_base: usize,
    write_base: usize,
    write_next: usize,
    write_end: usize,
    buffer: usize,
    buffer_end: usize,
    more: [usize; 5],
    descriptor: c_int,
    more_flags: c_int,
    still_more: [usize; 3],
    /// Where the descriptor stands, or less than nothing if the C library does not know.
    position: i64,
}
const _: () = assert!(core::mem::offset_of!(Layout, descriptor) == 112);
const _: () = assert!(core::mem::offset_of!(Layout, position) == 144);

impl Layout {
    const NO_READS: c_int = 0x0004;
    const IS_WRITING: c_int = 0x0800;
    const IS_FILE: c_int = 0x2000;

    /// Whether the next character is more than the buffer has, or has room for.
    #[inline(always)]
    fn is_used_up(&self, op: Op) -> bool {
        match op {
            Op::Read => self.read_next >= self.read_end,
            _ => self.write_next >= self.write_end,
        }
    }

    #[inline(always)]
    fn of(stream: *mut FILE) -> Option<&'static Self> {
        // SAFETY: null, or a stream that the program is about to use itself.
        unsafe { stream.cast::<Self>().as_ref() }
    }
}

/// The descriptor beneath a stream; −1 for one that is in memory only.
#[inline(always)]
pub(crate) fn descriptor(stream: *mut FILE) -> c_int {
    match Layout::of(stream) {
        Some(layout) if layout.flags & Layout::IS_FILE != 0 => layout.descriptor,
        _ => -1,
    }
}

/// Bytes that wait in a stream's own buffer: read ahead, and not yet written. Their change during a call is the amount that went to and
/// from the system beneath it.
#[derive(Clone, Copy)]
pub(crate) struct Waiting {
    pub to_read: u64,
    pub to_write: u64,
}

impl Waiting {
    #[inline(always)]
    pub(crate) fn in_(stream: *mut FILE) -> Self {
        let Some(layout) = Layout::of(stream) else { return Self { to_read: 0, to_write: 0 } };
        let is_writing = layout.flags & Layout::IS_WRITING != 0;
        Self {
            to_read: layout.read_end.saturating_sub(layout.read_next) as u64,
            to_write: if is_writing { layout.write_next.saturating_sub(layout.write_base) as u64 } else { 0 },
        }
    }

    /// Bytes that the system moved for a call of so many bytes, which found this and left that.
    #[inline(always)]
    fn beneath(self, op: Op, bytes: u64, after: Self) -> u64 {
        match op {
            Op::Read => (bytes + after.to_read).saturating_sub(self.to_read),
            _ => (bytes + self.to_write).saturating_sub(after.to_write),
        }
    }

    /// Where the program stands in a file whose descriptor stands at `at`.
    #[inline(always)]
    pub(crate) fn place(self, at: u64) -> u64 {
        if at == NO_POSITION { at } else { (at + self.to_write).saturating_sub(self.to_read) }
    }
}

#[inline(always)]
pub(crate) fn file_of(stream: *mut FILE) -> Option<File> {
    // Asked first: before everything is prepared, not even `fileno` is certain to work.
    if !crate::lifecycle::is_tracing() {
        return None;
    }
    files::of(descriptor(stream))
}

/// A call of a stream that is under way.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    name: Name,
    stream: *mut FILE,
    file: Option<File>,
    before: Waiting,
}

impl Call {
    #[inline(always)]
    pub(crate) fn begin(name: Name, stream: *mut FILE) -> Self {
        unlocked::settle(stream);
        Self { name, stream, file: file_of(stream), before: Waiting::in_(stream) }
    }

    pub(crate) fn is_traced(self) -> bool {
        self.file.is_some()
    }

    /// Takes note of what the call did: what the program moved, and what the system moved beneath.
    #[inline(always)]
    pub(crate) fn end(self, start: u64, outcome: Result<u64, i32>) {
        let moved = self.before.beneath(self.name.op(), outcome.unwrap_or(0), Waiting::in_(self.stream));
        self.end_with(start, outcome, moved);
    }

    #[inline(always)]
    fn end_with(self, start: u64, outcome: Result<u64, i32>, beneath: u64) {
        let Some(file) = self.file else {
            if beneath > 0 {
                totals::left_out(self.name.op(), descriptor(self.stream), beneath);
            }
            return;
        };
        let end = clock::now();
        let place = self.before.place(files::stands_at(descriptor(self.stream)));
        let record = record(self.name, Layer::Stdio, file, start, end, place, outcome);
        let Some(work) = Work::begin() else { return };
        match outcome {
            Ok(_) => work.push_joining(record),
            Err(_) => work.push(record),
        }
        drop(work);
        self.push_beneath(file, descriptor(self.stream), start, end, beneath);
        unlocked::mark(self.stream);
    }

    /// Records what the system moved: on behalf of the stream, so the same bytes again.
    fn push_beneath(self, file: File, fd: c_int, start: u64, end: u64, bytes: u64) {
        if bytes > 0 {
            let name = if self.name.op() == Op::Read { Name::STREAM_READ } else { Name::STREAM_WRITE };
            let place = files::stands_at(fd);
            let mut beneath = record(name, Layer::Posix, file, start, end, place, Ok(bytes));
            beneath.flags = beneath.flags.with(Flags::NESTED);
            push(file, beneath);
            files::moves_on(fd, place, bytes as isize);
        }
    }
}

fn opening(
    name: Name,
    path: *const c_char,
    mode: *const c_char,
    call: impl FnOnce() -> *mut FILE,
) -> *mut FILE {
    let start = clock::now();
    let stream = call();
    if !stream.is_null() && crate::lifecycle::is_tracing() {
        let fd = descriptor(stream);
        files::forget(fd);
        unlocked::forget(fd);
        // SAFETY: if not null, a C string, of which the call has read the first letter.
        let appends = || !mode.is_null() && unsafe { *mode } as u8 == b'a';
        let file = files::of(fd).or_else(|| files::keep_virtual(fd, libc::AT_FDCWD, path, appends()));
        if let Some(file) = file {
            buffer::push(record(name, Layer::Stdio, file, start, clock::now(), NO_POSITION, Ok(0)));
        }
    }
    stream
}

fn closing(name: Name, stream: *mut FILE, call: impl FnOnce() -> c_int) -> c_int {
    let fd = descriptor(stream);
    let last = Call::begin(Name::STREAM_WRITE, stream);
    let file = last.file.filter(|_| !sink::is_our_descriptor(fd));
    let class = files::class(fd);
    let start = clock::now();
    files::forget(fd);
    unlocked::forget(fd);
    let result = call();
    let outcome = if result == 0 { Ok(0) } else { Err(errno()) };
    let written = if result == 0 { last.before.to_write } else { 0 };
    match file {
        Some(file) => {
            last.push_beneath(file, fd, start, clock::now(), written);
            buffer::push(record(name, Layer::Stdio, file, start, clock::now(), NO_POSITION, outcome));
        }
        None => totals::left_out_of(class, Op::Write, written),
    }
    result
}

#[inline(always)]
fn items(
    name: Name,
    stream: *mut FILE,
    size: size_t,
    wanted: size_t,
    call: impl FnOnce() -> size_t,
) -> size_t {
    let this = Call::begin(name, stream);
    let start = clock::now();
    let pass = match this.file {
        Some(file) => {
            let at = || files::stands_at(descriptor(stream));
            gate::pass(name.op(), file.id, at, || size.saturating_mul(wanted))
        }
        None => gate::Pass::FREE,
    };
    let n = call();
    gate::passed(pass, n.wrapping_mul(size) as isize);
    this.end(start, Ok((n as u64).wrapping_mul(size as u64)));
    n
}

/// Observes a call that returns how many bytes it moved, or less than nothing.
#[inline(always)]
fn counted(name: Name, stream: *mut FILE, call: impl FnOnce() -> ssize_t) -> ssize_t {
    let this = Call::begin(name, stream);
    let start = clock::now();
    let n = call();
    // The end of the file is no failure.
    let outcome = if n >= 0 || name.op() == Op::Read { Ok(n.max(0) as u64) } else { Err(errno()) };
    this.end(start, outcome);
    n
}

fn text_out(
    name: Name,
    stream: *mut FILE,
    text: *const c_char,
    n_more: u64,
    call: impl FnOnce() -> c_int,
) -> c_int {
    let this = Call::begin(name, stream);
    let start = clock::now();
    let result = call();
    // SAFETY: a C string, since the call has read it.
    let outcome = if result >= 0 { Ok(unsafe { libc::strlen(text) } as u64 + n_more) } else { Err(errno()) };
    this.end(start, outcome);
    result
}

fn text_in(name: Name, stream: *mut FILE, call: impl FnOnce() -> *mut c_char) -> *mut c_char {
    let this = Call::begin(name, stream);
    let start = clock::now();
    let line = call();
    // SAFETY: if not null, the call has put a C string there.
    let n = if line.is_null() { 0 } else { unsafe { libc::strlen(line) } };
    this.end(start, Ok(n as u64));
    line
}

/// Observes one character. A reading of the clock would cost more than the call: of sixteen that follow each other, one is timed, and each
/// for which the C library has to ask the system.
#[inline(always)]
fn character(name: Name, stream: *mut FILE, call: impl FnOnce() -> c_int) -> c_int {
    let this = Call::begin(name, stream);
    let asks = this.file.is_some() && Layout::of(stream).is_some_and(|layout| layout.is_used_up(name.op()));
    let start = if asks { Some(clock::now()) } else { None };
    let c = call();
    if c == libc::EOF {
        return c;
    }
    let beneath = this.before.beneath(name.op(), 1, Waiting::in_(stream));
    if beneath == 0
        && let Some(file) = this.file
        && Work::begin().is_some_and(|work| work.join_character(name, file.id))
    {
        unlocked::mark(stream);
        return c;
    }
    if beneath > 0 || this.file.is_some() {
        this.end_with(start.unwrap_or_else(clock::now), Ok(1), beneath);
    }
    c
}

/// Observes a word of the machine; the call says whether it was moved.
fn word_of(name: Name, stream: *mut FILE, call: impl FnOnce() -> (bool, c_int)) -> c_int {
    let this = Call::begin(name, stream);
    let start = clock::now();
    let (is_moved, result) = call();
    if is_moved {
        this.end(start, Ok(size_of::<c_int>() as u64));
    }
    result
}

/// Observes a formatted read, whose bytes only the position tells.
fn scanned(name: Name, stream: *mut FILE, call: impl FnOnce() -> c_int) -> c_int {
    let this = Call::begin(name, stream);
    if this.file.is_none() {
        return call();
    }
    let position = || {
        let _errno = KeepErrno::now();
        // SAFETY: the program is about to use this stream itself.
        unsafe { libc::ftello(stream) }
    };
    let before = position();
    let start = clock::now();
    let n_fields = call();
    this.end(start, Ok(position().saturating_sub(before).max(0) as u64));
    n_fields
}

fn control(name: Name, stream: *mut FILE, call: impl FnOnce() -> c_int) -> c_int {
    let this = Call::begin(Name::STREAM_WRITE, stream);
    let ahead = ReadAhead::of(stream);
    let start = clock::now();
    let result = call();
    // A flush or a seek hands over what was waiting. (`fflush(NULL)` does so for streams nobody names here.)
    let after = Waiting::in_(stream);
    let written = this.before.to_write.saturating_sub(after.to_write);
    match this.file {
        Some(file) => {
            let (end, fd) = (clock::now(), descriptor(stream));
            this.push_beneath(file, fd, start, end, written);
            if name.op() == Op::Seek
                && let Some(ReadAhead { bytes, ends_at }) = ahead.replaced_in(stream)
            {
                files::stand_at(fd, (ends_at as u64).saturating_sub(bytes));
                let this = Call { name: Name::STREAM_READ, ..this };
                this.push_beneath(file, fd, start, end, bytes);
            }
            // A seek may leave the descriptor anywhere; so does a flush of what was read ahead.
            if name.op() == Op::Seek || this.before.to_read > 0 {
                let known = Layout::of(stream).and_then(|layout| u64::try_from(layout.position).ok());
                files::stand_at(fd, known.or_else(|| crate::sys::position(fd)).unwrap_or(0));
            }
            unlocked::mark(stream);
            let place = if name.op() == Op::Seek { after.place(files::stands_at(fd)) } else { NO_POSITION };
            buffer::push(record(name, Layer::Stdio, file, start, end, place, Ok(0)));
        }
        None => {
            totals::left_out(Op::Write, descriptor(stream), written);
            if name.op() == Op::Seek
                && let Some(ReadAhead { bytes, .. }) = ahead.replaced_in(stream)
            {
                totals::left_out(Op::Read, descriptor(stream), bytes);
            }
        }
    }
    result
}

/// Bytes that a stream has read ahead, and where in the file they end.
#[derive(Clone, Copy, PartialEq, Eq)]
struct ReadAhead {
    bytes: u64,
    ends_at: i64,
}

impl ReadAhead {
    fn of(stream: *mut FILE) -> Self {
        Layout::of(stream).map_or(Self { bytes: 0, ends_at: -1 }, |layout| Self {
            bytes: layout.read_end.saturating_sub(layout.read_base) as u64,
            ends_at: layout.position,
        })
    }

    /// Returns the bytes that a stream has read since: a seek out of what was read ahead reads the block around the place where it goes.
    fn replaced_in(self, stream: *mut FILE) -> Option<Self> {
        let now = Self::of(stream);
        if now == self || now.ends_at < 0 {
            return None;
        }
        if now.bytes > 0 { Some(now) } else { Self::before_end(Layout::of(stream)?) }
    }

    /// Returns the bytes that a seek beyond the end of a file has read of its last block, in vain.
    #[cold]
    fn before_end(layout: &Layout) -> Option<Self> {
        let size = layout.buffer_end.checked_sub(layout.buffer)? as i64;
        if layout.flags & Layout::NO_READS != 0 || size <= 0 || size & (size - 1) != 0 {
            return None;
        }
        let block = layout.position & !(size - 1);
        let end = if block < layout.position { crate::sys::stat(layout.descriptor)?.st_size } else { block };
        let bytes =
            end.min(layout.position).checked_sub(block).and_then(|bytes| u64::try_from(bytes).ok())?;
        (end < layout.position && bytes > 0).then_some(Self { bytes, ends_at: end })
    }
}

/// The process is about to end: the C library will write out what waits in its own stream. (Of others nobody knows whether they are still
/// there: a thread may be closing them.)
pub(crate) fn exits() {
    // SAFETY: the C library's own, which stays.
    let stream = unsafe { stdout };
    let this = Call::begin(Name::STREAM_WRITE, stream);
    let now = clock::now();
    match this.file {
        Some(file) => this.push_beneath(file, descriptor(stream), now, now, this.before.to_write),
        None => totals::left_out(Op::Write, descriptor(stream), this.before.to_write),
    }
}
