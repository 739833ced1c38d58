//! Batches of a table by Arrow's C interface, which data frames and databases take without a copy.
//!
//! The two structs of an array, the one of a stream and the rules of who frees what are those of
//! <https://arrow.apache.org/docs/format/CDataInterface.html> and `CStreamInterface.html`.

// What crosses to Python by C structs is made of pointers.
#![allow(unsafe_code)]
#![deny(clippy::undocumented_unsafe_blocks)]

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use iotide_cli::Fault;

use crate::columns::{Cells, Kind, Rows, Values, Words};
use crate::table::Field;

/// Values may be absent.
const NULLABLE: i64 = 2;
/// `EIO`: what went wrong is in `get_last_error`.
const FAILED: c_int = 5;

#[repr(C)]
struct ArrowSchema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut ArrowSchema,
    dictionary: *mut ArrowSchema,
    release: Option<unsafe extern "C" fn(*mut ArrowSchema)>,
    private_data: *mut c_void,
}

/// End of a stream: an array that is released.
const ENDED: ArrowArray = ArrowArray {
    length: 0,
    null_count: 0,
    offset: 0,
    n_buffers: 0,
    n_children: 0,
    buffers: ptr::null_mut(),
    children: ptr::null_mut(),
    dictionary: ptr::null_mut(),
    release: None,
    private_data: ptr::null_mut(),
};

#[repr(C)]
struct ArrowArray {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut ArrowArray,
    dictionary: *mut ArrowArray,
    release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    private_data: *mut c_void,
}

/// A stream of batches, for a capsule. Whoever takes it out leaves it without `release`.
#[repr(C)]
pub(crate) struct ArrayStream {
    get_schema: Option<unsafe extern "C" fn(*mut ArrayStream, *mut ArrowSchema) -> c_int>,
    get_next: Option<unsafe extern "C" fn(*mut ArrayStream, *mut ArrowArray) -> c_int>,
    get_last_error: Option<unsafe extern "C" fn(*mut ArrayStream) -> *const c_char>,
    release: Option<unsafe extern "C" fn(*mut ArrayStream)>,
    private_data: *mut c_void,
}

/// State of a stream.
struct Streaming {
    fields: Arc<Vec<Field>>,
    batches: Receiver<Result<Rows, Fault>>,
    last_error: CString,
}

// SAFETY: what the pointer leads to is a `Streaming`, which is `Send`, and only the stream has it.
unsafe impl Send for ArrayStream {}

impl ArrayStream {
    pub(crate) fn new(fields: Arc<Vec<Field>>, batches: Receiver<Result<Rows, Fault>>) -> Self {
        let streaming = Streaming { fields, batches, last_error: CString::default() };
        Self {
            get_schema: Some(stream_schema),
            get_next: Some(stream_next),
            get_last_error: Some(stream_error),
            release: Some(stream_release),
            private_data: Box::into_raw(Box::new(streaming)).cast(),
        }
    }
}

impl Drop for ArrayStream {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: a stream with `release` was not released, and is ours.
            unsafe { release(self) };
        }
    }
}

unsafe extern "C" fn stream_schema(stream: *mut ArrayStream, out: *mut ArrowSchema) -> c_int {
    // SAFETY: called by the interface with a stream that was not released, whose data `new` made, and a place to write to.
    unsafe {
        let streaming = &*(*stream).private_data.cast::<Streaming>();
        out.write(schema_of(&streaming.fields));
    }
    0
}

unsafe extern "C" fn stream_next(stream: *mut ArrayStream, out: *mut ArrowArray) -> c_int {
    // SAFETY: as above; nobody else uses a stream meanwhile.
    let streaming = unsafe { &mut *(*stream).private_data.cast::<Streaming>() };
    let array = match streaming.batches.recv() {
        Ok(Ok(rows)) => array_of(&Arc::new(rows)),
        Ok(Err(fault)) => {
            streaming.last_error = CString::new(fault.message.replace('\0', " ")).unwrap_or_default();
            return FAILED;
        }
        // The end: an array that is released.
        Err(_) => ENDED,
    };
    // SAFETY: a place to write to, as above.
    unsafe { out.write(array) };
    0
}

unsafe extern "C" fn stream_error(stream: *mut ArrayStream) -> *const c_char {
    // SAFETY: as above; the text lives until the next call.
    unsafe { (*(*stream).private_data.cast::<Streaming>()).last_error.as_ptr() }
}

unsafe extern "C" fn stream_release(stream: *mut ArrayStream) {
    // SAFETY: called once, with a stream that was not released.
    unsafe {
        drop(Box::from_raw((*stream).private_data.cast::<Streaming>()));
        (*stream).release = None;
        (*stream).private_data = ptr::null_mut();
    }
}

/// Owner of what a schema's pointers lead to.
struct Named {
    _format: CString,
    _name: CString,
    children: Vec<*mut ArrowSchema>,
    dictionary: *mut ArrowSchema,
}

fn schema(
    format: &str,
    name: &str,
    children: Vec<ArrowSchema>,
    dictionary: Option<ArrowSchema>,
) -> ArrowSchema {
    let format = CString::new(format).unwrap_or_default();
    let name = CString::new(name.replace('\0', " ")).unwrap_or_default();
    let (format_start, name_start) = (format.as_ptr(), name.as_ptr());
    let children: Vec<_> = children.into_iter().map(|child| Box::into_raw(Box::new(child))).collect();
    let dictionary = dictionary.map_or(ptr::null_mut(), |words| Box::into_raw(Box::new(words)));
    let mut named = Box::new(Named { _format: format, _name: name, children, dictionary });
    ArrowSchema {
        format: format_start,
        name: name_start,
        metadata: ptr::null(),
        flags: NULLABLE,
        n_children: named.children.len() as i64,
        children: named.children.as_mut_ptr(),
        dictionary,
        release: Some(schema_release),
        private_data: Box::into_raw(named).cast(),
    }
}

fn schema_of(fields: &[Field]) -> ArrowSchema {
    let column = |field: &Field| match field.kind {
        Kind::Int => schema("l", &field.name, Vec::new(), None),
        Kind::Unsigned => schema("L", &field.name, Vec::new(), None),
        Kind::Float => schema("g", &field.name, Vec::new(), None),
        Kind::Words => schema("i", &field.name, Vec::new(), Some(schema("U", "", Vec::new(), None))),
    };
    schema("+s", "", fields.iter().map(column).collect(), None)
}

unsafe extern "C" fn schema_release(schema: *mut ArrowSchema) {
    // SAFETY: called once, with a schema that `schema` made. A child that was taken out has no `release` any more.
    unsafe {
        let named = Box::from_raw((*schema).private_data.cast::<Named>());
        for &child in named.children.iter().chain((!named.dictionary.is_null()).then_some(&named.dictionary))
        {
            if let Some(release) = (*child).release {
                release(child);
            }
            drop(Box::from_raw(child));
        }
        (*schema).release = None;
    }
}

/// Owner of what an array's pointers lead to.
#[derive(Default)]
struct Built {
    buffers: Vec<*const c_void>,
    children: Vec<*mut ArrowArray>,
    dictionary: Option<*mut ArrowArray>,
    /// Keeps the values where they are.
    _rows: Option<Arc<Rows>>,
    _words: Option<Arc<Words>>,
}

impl Built {
    fn into_array(self, length: usize, n_null: usize) -> ArrowArray {
        let mut built = Box::new(self);
        ArrowArray {
            length: length as i64,
            null_count: n_null as i64,
            offset: 0,
            n_buffers: built.buffers.len() as i64,
            n_children: built.children.len() as i64,
            buffers: built.buffers.as_mut_ptr(),
            children: built.children.as_mut_ptr(),
            dictionary: built.dictionary.unwrap_or(ptr::null_mut()),
            release: Some(array_release),
            private_data: Box::into_raw(built).cast(),
        }
    }
}

fn array_of(rows: &Arc<Rows>) -> ArrowArray {
    let children = rows.columns.iter().map(|cells| Box::into_raw(Box::new(column_of(rows, cells)))).collect();
    let built = Built { buffers: vec![ptr::null()], children, ..Built::default() };
    built.into_array(rows.n_rows, 0)
}

fn column_of(rows: &Arc<Rows>, cells: &Cells) -> ArrowArray {
    let valid = cells.valid.as_ref().map_or(ptr::null(), |bits| bits.as_ptr().cast());
    let (start, dictionary): (*const c_void, _) = match &cells.values {
        Values::Int(values) => (values.as_ptr().cast(), None),
        Values::Unsigned(values) => (values.as_ptr().cast(), None),
        Values::Float(values) => (values.as_ptr().cast(), None),
        Values::Words(codes, words) => (codes.as_ptr().cast(), Some(words)),
    };
    let dictionary = dictionary.map(|words| Box::into_raw(Box::new(words_of(words))));
    let built =
        Built { buffers: vec![valid, start], dictionary, _rows: Some(Arc::clone(rows)), ..Built::default() };
    built.into_array(rows.n_rows, cells.n_null)
}

fn words_of(words: &Arc<Words>) -> ArrowArray {
    let buffers = vec![ptr::null(), words.offsets.as_ptr().cast(), words.bytes.as_ptr().cast()];
    let built = Built { buffers, _words: Some(Arc::clone(words)), ..Built::default() };
    built.into_array(words.len(), 0)
}

unsafe extern "C" fn array_release(array: *mut ArrowArray) {
    // SAFETY: called once, with an array that `into_array` made. A child that was taken out has no `release` any more.
    unsafe {
        let built = Box::from_raw((*array).private_data.cast::<Built>());
        for &child in built.children.iter().chain(&built.dictionary) {
            if let Some(release) = (*child).release {
                release(child);
            }
            drop(Box::from_raw(child));
        }
        (*array).release = None;
    }
}
