//! Open MPI or MPICH: decided once, at run time, by what the library says of itself.
//!
//! Handles pass through us as machine words, whatever they are. Only three things must be known: how wide a request is where it lies in
//! memory, how large a status is, and what the program writes for "I do not want one".

use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

use crate::next::Next;

/// A family of MPI libraries that share one binary interface.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Abi {
    /// Open MPI and what is built on it: handles are pointers.
    OpenMpi,
    /// MPICH, Intel MPI, MVAPICH, Cray MPICH: handles are 32-bit numbers, except files.
    Mpich,
}

static KNOWN: AtomicU8 = AtomicU8::new(0);

impl Abi {
    /// Returns the family of the library in this process, or `None` if there is none.
    pub fn of_this_process() -> Option<Self> {
        match KNOWN.load(Relaxed) {
            1 => Some(Self::OpenMpi),
            2 => Some(Self::Mpich),
            3 => None,
            _ => {
                let abi = Self::ask();
                KNOWN.store(abi.map_or(3, |abi| if abi == Self::OpenMpi { 1 } else { 2 }), Relaxed);
                abi
            }
        }
    }

    #[cold]
    fn ask() -> Option<Self> {
        let mut text = [0; VERSION_MAX];
        let version = library_version(&mut text)?;
        Some(if version.starts_with(b"Open MPI") { Self::OpenMpi } else { Self::Mpich })
    }

    /// Bytes of a status in an array.
    pub fn status_size(self) -> usize {
        match self {
            Self::OpenMpi => 24,
            Self::Mpich => 20,
        }
    }

    /// Whether this is what the program writes for "no status" or "no statuses".
    pub fn ignores_status(self, status: usize) -> bool {
        match self {
            Self::OpenMpi => status == 0,
            Self::Mpich => status == 1,
        }
    }

    /// Reads request `i` of an array.
    ///
    /// # Safety
    /// `requests` points to at least `i + 1` requests.
    pub unsafe fn request(self, requests: usize, i: usize) -> u64 {
        // SAFETY: the caller's promise, and the width of a request in this family.
        unsafe {
            match self {
                Self::OpenMpi => *(requests as *const u64).add(i),
                Self::Mpich => u64::from(*(requests as *const u32).add(i)),
            }
        }
    }

    fn byte(self) -> usize {
        static BYTE: Next = Next::new(c"ompi_mpi_byte");
        match self {
            Self::OpenMpi => BYTE.variable() as usize,
            Self::Mpich => 0x4c00_010d,
        }
    }

    fn world(self) -> usize {
        static WORLD: Next = Next::new(c"ompi_mpi_comm_world");
        match self {
            Self::OpenMpi => WORLD.variable() as usize,
            Self::Mpich => 0x4400_0000,
        }
    }

    /// Returns how many bytes a completed operation moved, or `None` if the status does not tell.
    pub fn bytes(self, status: usize) -> Option<u64> {
        static GET_ELEMENTS: Next = Next::new(c"PMPI_Get_elements_x");
        type GetElements = unsafe extern "C-unwind" fn(usize, usize, *mut i64) -> c_int;
        let address = GET_ELEMENTS.address();
        if address.is_null() {
            return None;
        }
        let mut n = -1i64;
        // SAFETY: MPI's function of this name (since MPI 3), with a status that an operation has just filled in.
        let result = unsafe {
            core::mem::transmute::<*mut c_void, GetElements>(address)(status, self.byte(), &raw mut n)
        };
        if result == 0 { u64::try_from(n).ok() } else { None }
    }

    /// Returns how many bytes one element of a datatype holds.
    pub fn type_size(self, datatype: usize) -> Option<u64> {
        static TYPE_SIZE: Next = Next::new(c"PMPI_Type_size_x");
        type TypeSize = unsafe extern "C-unwind" fn(usize, *mut i64) -> c_int;
        let address = TYPE_SIZE.address();
        if address.is_null() {
            return None;
        }
        if !self.is_datatype(datatype) {
            return None;
        }
        let mut n = -1i64;
        // SAFETY: MPI's function of this name (since MPI 3), with a datatype the program has just used.
        let result = unsafe { core::mem::transmute::<*mut c_void, TypeSize>(address)(datatype, &raw mut n) };
        if result == 0 { u64::try_from(n).ok() } else { None }
    }

    /// Whether this may be a datatype: to ask MPI about one that is none would end the program.
    fn is_datatype(self, datatype: usize) -> bool {
        static NULL: Next = Next::new(c"ompi_mpi_datatype_null");
        match self {
            Self::OpenMpi => datatype != 0 && datatype != NULL.variable() as usize,
            // Two bits of how it was made (0: not at all), four of what it is (3: a datatype).
            Self::Mpich => datatype as u32 >> 30 != 0 && (datatype as u32 >> 26) & 0xf == 3,
        }
    }

    /// Whether this is what the program writes for "in place" of a buffer.
    pub fn is_in_place(self, memory: usize) -> bool {
        match self {
            Self::OpenMpi => memory == 1,
            Self::Mpich => memory == usize::MAX,
        }
    }

    /// How many processes the one that asks speaks to: those of the other group, where a communicator has two.
    pub fn n_peers(self, comm: usize) -> Option<u32> {
        static TEST_INTER: Next = Next::new(c"PMPI_Comm_test_inter");
        static REMOTE_SIZE: Next = Next::new(c"PMPI_Comm_remote_size");
        if ask(&TEST_INTER, comm)? == 0 { self.n_own(comm) } else { ask(&REMOTE_SIZE, comm) }
    }

    /// How many processes its own group of a communicator has.
    pub fn n_own(self, comm: usize) -> Option<u32> {
        ask(&SIZE, comm)
    }

    /// Returns this process's rank and the number of ranks.
    pub fn rank_and_size(self) -> Option<(u32, u32)> {
        static RANK: Next = Next::new(c"PMPI_Comm_rank");
        Some((ask(&RANK, self.world())?, ask(&SIZE, self.world())?))
    }
}

static SIZE: Next = Next::new(c"PMPI_Comm_size");

/// Asks one of MPI's functions a number about a communicator.
fn ask(next: &Next, comm: usize) -> Option<u32> {
    type Ask = unsafe extern "C-unwind" fn(usize, *mut c_int) -> c_int;
    let address = next.address();
    if address.is_null() {
        return None;
    }
    let mut answer = -1;
    // SAFETY: a function of MPI that takes a communicator and where to put an int, after `MPI_Init`.
    let result = unsafe { core::mem::transmute::<*mut c_void, Ask>(address)(comm, &raw mut answer) };
    if result == 0 { u32::try_from(answer).ok() } else { None }
}

/// The longest text a library may give (MPICH's bound; Open MPI's is 256).
pub const VERSION_MAX: usize = 8192;

/// Returns the library's description of itself, which it gives even before `MPI_Init`.
pub fn library_version(text: &mut [u8; VERSION_MAX]) -> Option<&[u8]> {
    static VERSION: Next = Next::new(c"PMPI_Get_library_version");
    type Version = unsafe extern "C-unwind" fn(*mut c_char, *mut c_int) -> c_int;
    let address = VERSION.address();
    if address.is_null() {
        return None;
    }
    let mut n = 0;
    // SAFETY: MPI's function of this name (since MPI 3); the memory is as large as any library may fill.
    let result = unsafe {
        core::mem::transmute::<*mut c_void, Version>(address)(text.as_mut_ptr().cast(), &raw mut n)
    };
    (result == 0).then(|| &text[..(n.max(0) as usize).min(VERSION_MAX)])
}
