//! The functions of MPI, numbered.

use crate::call::is_same;

/// Class of a function. The sum over its functions is the time of the class: nothing counts itself in two of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum MpiClass {
    /// Messages from one process to another.
    PointToPoint = 0,
    /// All processes of a communicator take part.
    Collective = 1,
    /// Waits for requests, or looks at them.
    Wait = 2,
    /// Files. The same calls stand in the I/O counters as [`crate::page::PageLayer::MpiIo`]; their time is time of I/O.
    MpiIo = 3,
    /// Reads and writes another process's memory.
    OneSided = 4,
    /// Starts and ends MPI, makes and frees communicators.
    Management = 5,
}

impl MpiClass {
    /// All classes, in the order of their codes.
    pub const ALL: [MpiClass; 6] =
        [Self::PointToPoint, Self::Collective, Self::Wait, Self::MpiIo, Self::OneSided, Self::Management];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PointToPoint => "point_to_point",
            Self::Collective => "collective",
            Self::Wait => "wait",
            Self::MpiIo => "mpi_io",
            Self::OneSided => "one_sided",
            Self::Management => "management",
        }
    }
}

/// A function of MPI. Its variants for large counts (`MPI_Send_c`) and for Fortran are the same function. The codes are part of the
/// format: add at the end of the table, never renumber.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct MpiFunction(u8);

macro_rules! functions {
    ($($class:ident { $($name:literal)* })*) => {
        /// How many functions there are.
        const N: usize = [$($($name),*),*].len();
        const NAMES: [&str; N] = [$($($name),*),*];
        const CLASSES: [MpiClass; N] = [$($({ let _ = $name; MpiClass::$class }),*),*];
    };
}

functions! {
    PointToPoint {
        "MPI_Send" "MPI_Bsend" "MPI_Ssend" "MPI_Rsend" "MPI_Recv" "MPI_Isend" "MPI_Ibsend" "MPI_Issend" "MPI_Irsend" "MPI_Irecv"
        "MPI_Sendrecv" "MPI_Sendrecv_replace" "MPI_Probe" "MPI_Iprobe" "MPI_Mprobe" "MPI_Improbe" "MPI_Mrecv" "MPI_Imrecv"
        "MPI_Send_init" "MPI_Bsend_init" "MPI_Ssend_init" "MPI_Rsend_init" "MPI_Recv_init" "MPI_Start" "MPI_Startall"
        "MPI_Isendrecv" "MPI_Isendrecv_replace" "MPI_Psend_init" "MPI_Precv_init" "MPI_Pready" "MPI_Parrived"
    }
    Wait {
        "MPI_Wait" "MPI_Waitall" "MPI_Waitany" "MPI_Waitsome" "MPI_Test" "MPI_Testall" "MPI_Testany" "MPI_Testsome"
        "MPI_Request_free" "MPI_Request_get_status" "MPI_Cancel"
    }
    Collective {
        "MPI_Barrier" "MPI_Bcast" "MPI_Gather" "MPI_Gatherv" "MPI_Scatter" "MPI_Scatterv" "MPI_Allgather" "MPI_Allgatherv"
        "MPI_Alltoall" "MPI_Alltoallv" "MPI_Alltoallw" "MPI_Reduce" "MPI_Allreduce" "MPI_Reduce_scatter"
        "MPI_Reduce_scatter_block" "MPI_Scan" "MPI_Exscan"
        "MPI_Ibarrier" "MPI_Ibcast" "MPI_Igather" "MPI_Igatherv" "MPI_Iscatter" "MPI_Iscatterv" "MPI_Iallgather"
        "MPI_Iallgatherv" "MPI_Ialltoall" "MPI_Ialltoallv" "MPI_Ialltoallw" "MPI_Ireduce" "MPI_Iallreduce"
        "MPI_Ireduce_scatter" "MPI_Ireduce_scatter_block" "MPI_Iscan" "MPI_Iexscan"
        "MPI_Neighbor_allgather" "MPI_Neighbor_allgatherv" "MPI_Neighbor_alltoall" "MPI_Neighbor_alltoallv"
        "MPI_Neighbor_alltoallw" "MPI_Ineighbor_allgather" "MPI_Ineighbor_allgatherv" "MPI_Ineighbor_alltoall"
        "MPI_Ineighbor_alltoallv" "MPI_Ineighbor_alltoallw"
    }
    Management {
        "MPI_Init" "MPI_Init_thread" "MPI_Finalize" "MPI_Comm_dup" "MPI_Comm_dup_with_info" "MPI_Comm_idup" "MPI_Comm_split"
        "MPI_Comm_split_type" "MPI_Comm_create" "MPI_Comm_create_group" "MPI_Comm_free" "MPI_Comm_disconnect"
        "MPI_Comm_spawn" "MPI_Comm_spawn_multiple" "MPI_Comm_accept" "MPI_Comm_connect" "MPI_Intercomm_create"
        "MPI_Intercomm_merge" "MPI_Cart_create" "MPI_Cart_sub" "MPI_Graph_create" "MPI_Dist_graph_create"
        "MPI_Dist_graph_create_adjacent"
    }
    OneSided {
        "MPI_Put" "MPI_Get" "MPI_Accumulate" "MPI_Get_accumulate" "MPI_Fetch_and_op" "MPI_Compare_and_swap" "MPI_Rput"
        "MPI_Rget" "MPI_Raccumulate" "MPI_Rget_accumulate" "MPI_Win_create" "MPI_Win_allocate" "MPI_Win_allocate_shared"
        "MPI_Win_create_dynamic" "MPI_Win_free" "MPI_Win_fence" "MPI_Win_lock" "MPI_Win_unlock" "MPI_Win_lock_all"
        "MPI_Win_unlock_all" "MPI_Win_flush" "MPI_Win_flush_all" "MPI_Win_flush_local" "MPI_Win_flush_local_all"
        "MPI_Win_post" "MPI_Win_start" "MPI_Win_complete" "MPI_Win_wait" "MPI_Win_test" "MPI_Win_sync"
    }
    MpiIo {
        "MPI_File_open" "MPI_File_close" "MPI_File_sync" "MPI_File_set_view" "MPI_File_seek" "MPI_File_seek_shared"
        "MPI_File_set_size" "MPI_File_preallocate" "MPI_File_delete" "MPI_File_read" "MPI_File_read_all"
        "MPI_File_read_shared" "MPI_File_read_ordered" "MPI_File_read_at" "MPI_File_read_at_all" "MPI_File_iread"
        "MPI_File_iread_all" "MPI_File_iread_shared" "MPI_File_iread_at" "MPI_File_iread_at_all"
        "MPI_File_read_all_begin" "MPI_File_read_all_end" "MPI_File_read_ordered_begin" "MPI_File_read_ordered_end"
        "MPI_File_read_at_all_begin" "MPI_File_read_at_all_end" "MPI_File_write" "MPI_File_write_all"
        "MPI_File_write_shared" "MPI_File_write_ordered" "MPI_File_write_at" "MPI_File_write_at_all" "MPI_File_iwrite"
        "MPI_File_iwrite_all" "MPI_File_iwrite_shared" "MPI_File_iwrite_at" "MPI_File_iwrite_at_all"
        "MPI_File_write_all_begin" "MPI_File_write_all_end" "MPI_File_write_ordered_begin" "MPI_File_write_ordered_end"
        "MPI_File_write_at_all_begin" "MPI_File_write_at_all_end"
    }
}

const _: () = assert!(N <= MpiFunction::SLOTS);

impl MpiFunction {
    /// How many functions a lane has room for.
    pub const SLOTS: usize = 256;

    /// All functions, in the order of their codes.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..N).map(|code| Self(code as u8))
    }

    /// The function behind a symbol: `PMPI_Send` and `MPI_Send_c` are `MPI_Send`.
    ///
    /// # Panics
    /// If the table does not have it; meant to be asked while the tracer is compiled.
    pub const fn of_symbol(symbol: &str) -> Self {
        let name = match symbol.as_bytes() {
            [b'P', rest @ ..] if matches!(rest, [b'M', b'P', b'I', ..]) => rest,
            all => all,
        };
        let name = match name {
            [rest @ .., b'_', b'c'] => rest,
            _ => name,
        };
        let mut i = 0;
        while i < N {
            if is_same(NAMES[i].as_bytes(), name) {
                return Self(i as u8);
            }
            i += 1;
        }
        panic!("the function is not in the table of MPI functions")
    }

    /// The function of that name, if the table has it.
    pub fn of_name(name: &str) -> Option<Self> {
        NAMES.iter().position(|known| *known == name).map(|code| Self(code as u8))
    }

    /// The function of that code.
    pub fn from_code(code: u8) -> Option<Self> {
        (usize::from(code) < N).then_some(Self(code))
    }

    /// Its code: its place in a lane.
    pub const fn code(self) -> u8 {
        self.0
    }

    /// Its name, as in C.
    pub const fn name(self) -> &'static str {
        let code = self.0 as usize;
        if code < N { NAMES[code] } else { "" }
    }

    /// Its class.
    pub const fn class(self) -> MpiClass {
        let code = self.0 as usize;
        if code < N { CLASSES[code] } else { MpiClass::Management }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_symbol_of_a_function_leads_to_it() {
        for function in MpiFunction::all() {
            assert_eq!(MpiFunction::of_symbol(function.name()), function);
            assert_eq!(MpiFunction::of_name(function.name()), Some(function));
            assert_eq!(MpiFunction::from_code(function.code()), Some(function));
            assert_eq!(
                function.class() == MpiClass::MpiIo,
                function.name().starts_with("MPI_File_"),
                "{}",
                function.name()
            );
        }
        for symbol in ["PMPI_Send", "MPI_Send_c", "PMPI_Send_c"] {
            assert_eq!(MpiFunction::of_symbol(symbol).name(), "MPI_Send");
        }
    }

    #[test]
    fn codes_are_a_promise() {
        let code = |name| MpiFunction::of_name(name).map(MpiFunction::code);
        for (name, there) in [
            ("MPI_Send", 0),
            ("MPI_Parrived", 30),
            ("MPI_Wait", 31),
            ("MPI_Barrier", 42),
            ("MPI_Gather", 44),
            ("MPI_Init", 86),
            ("MPI_Put", 109),
            ("MPI_File_open", 139),
            ("MPI_File_write_at_all_end", 181),
        ] {
            assert_eq!(code(name), Some(there), "{name}");
        }
        assert_eq!(MpiFunction::from_code(182), None);
    }
}
