//! Hooks of the rest of MPI, which only count: calls, bytes and time of each function ([`crate::page`]).
//!
//! Bytes are what the arguments say this process gives, or gets where it gives nothing (a broadcast, its part of a scatter); of a receive, what
//! has come. Where only a topology knows how many neighbours there are, none are counted.
//!
//! A question to MPI about a datatype that is none would end the program. So nothing is asked where arguments may mean nothing: in place, for
//! roots that are none, for counts of zero.

use super::*;
use Count::{Int, Wide};

/// Replaces MPI functions under both names by ones that count. `|mpi|` says how many bytes a call moves that went well.
macro_rules! counted {
    ($($name:ident $pname:ident ($($arg:ident),*) $(|$mpi:ident| $bytes:expr)?;)*) => {
        mpi! {
            $($name $pname ($($arg),*) |next| timed(const { function() }, counted!(@bytes $($mpi, $bytes)?), || next($($arg),*));)*
        }
    };
    (@bytes $mpi:ident, $bytes:expr) => { |$mpi: Asked| $bytes };
    (@bytes) => { |_: Asked| 0 };
}

#[rustfmt::skip]
counted! {
    // Messages from one process to another.
    MPI_Send PMPI_Send (memory, count, datatype, to, tag, comm) |mpi| mpi.bytes(Int(count), datatype);
    MPI_Send_c PMPI_Send_c (memory, count, datatype, to, tag, comm) |mpi| mpi.bytes(Wide(count), datatype);
    MPI_Bsend PMPI_Bsend (memory, count, datatype, to, tag, comm) |mpi| mpi.bytes(Int(count), datatype);
    MPI_Bsend_c PMPI_Bsend_c (memory, count, datatype, to, tag, comm) |mpi| mpi.bytes(Wide(count), datatype);
    MPI_Ssend PMPI_Ssend (memory, count, datatype, to, tag, comm) |mpi| mpi.bytes(Int(count), datatype);
    MPI_Ssend_c PMPI_Ssend_c (memory, count, datatype, to, tag, comm) |mpi| mpi.bytes(Wide(count), datatype);
    MPI_Rsend PMPI_Rsend (memory, count, datatype, to, tag, comm) |mpi| mpi.bytes(Int(count), datatype);
    MPI_Rsend_c PMPI_Rsend_c (memory, count, datatype, to, tag, comm) |mpi| mpi.bytes(Wide(count), datatype);
    MPI_Isend PMPI_Isend (memory, count, datatype, to, tag, comm, request) |mpi| mpi.bytes(Int(count), datatype);
    MPI_Isend_c PMPI_Isend_c (memory, count, datatype, to, tag, comm, request) |mpi| mpi.bytes(Wide(count), datatype);
    MPI_Ibsend PMPI_Ibsend (memory, count, datatype, to, tag, comm, request) |mpi| mpi.bytes(Int(count), datatype);
    MPI_Ibsend_c PMPI_Ibsend_c (memory, count, datatype, to, tag, comm, request) |mpi| mpi.bytes(Wide(count), datatype);
    MPI_Issend PMPI_Issend (memory, count, datatype, to, tag, comm, request) |mpi| mpi.bytes(Int(count), datatype);
    MPI_Issend_c PMPI_Issend_c (memory, count, datatype, to, tag, comm, request) |mpi| mpi.bytes(Wide(count), datatype);
    MPI_Irsend PMPI_Irsend (memory, count, datatype, to, tag, comm, request) |mpi| mpi.bytes(Int(count), datatype);
    MPI_Irsend_c PMPI_Irsend_c (memory, count, datatype, to, tag, comm, request) |mpi| mpi.bytes(Wide(count), datatype);
    MPI_Irecv PMPI_Irecv (memory, count, datatype, from, tag, comm, request) |mpi| mpi.bytes(Int(count), datatype);
    MPI_Irecv_c PMPI_Irecv_c (memory, count, datatype, from, tag, comm, request) |mpi| mpi.bytes(Wide(count), datatype);
    MPI_Sendrecv PMPI_Sendrecv (memory, count, datatype, to, tag, into, room, as_type, from, with_tag, comm, status) |mpi| mpi.bytes(Int(count), datatype);
    MPI_Sendrecv_c PMPI_Sendrecv_c (memory, count, datatype, to, tag, into, room, as_type, from, with_tag, comm, status) |mpi| mpi.bytes(Wide(count), datatype);
    MPI_Sendrecv_replace PMPI_Sendrecv_replace (memory, count, datatype, to, tag, from, with_tag, comm, status) |mpi| mpi.bytes(Int(count), datatype);
    MPI_Sendrecv_replace_c PMPI_Sendrecv_replace_c (memory, count, datatype, to, tag, from, with_tag, comm, status) |mpi| mpi.bytes(Wide(count), datatype);
    MPI_Isendrecv PMPI_Isendrecv (memory, count, datatype, to, tag, into, room, as_type, from, with_tag, comm, request) |mpi| mpi.bytes(Int(count), datatype);
    MPI_Isendrecv_replace PMPI_Isendrecv_replace (memory, count, datatype, to, tag, from, with_tag, comm, request) |mpi| mpi.bytes(Int(count), datatype);
    MPI_Probe PMPI_Probe (from, tag, comm, status);
    MPI_Iprobe PMPI_Iprobe (from, tag, comm, flag, status);
    MPI_Mprobe PMPI_Mprobe (from, tag, comm, message, status);
    MPI_Improbe PMPI_Improbe (from, tag, comm, flag, message, status);
    MPI_Imrecv PMPI_Imrecv (memory, count, datatype, message, request) |mpi| mpi.bytes(Int(count), datatype);
    MPI_Send_init PMPI_Send_init (memory, count, datatype, peer, tag, comm, request);
    MPI_Bsend_init PMPI_Bsend_init (memory, count, datatype, peer, tag, comm, request);
    MPI_Ssend_init PMPI_Ssend_init (memory, count, datatype, peer, tag, comm, request);
    MPI_Rsend_init PMPI_Rsend_init (memory, count, datatype, peer, tag, comm, request);
    MPI_Recv_init PMPI_Recv_init (memory, count, datatype, peer, tag, comm, request);
    MPI_Start PMPI_Start (request);
    MPI_Startall PMPI_Startall (n, requests);
    MPI_Request_get_status PMPI_Request_get_status (request, flag, status);
    MPI_Cancel PMPI_Cancel (request);
    // All processes of a communicator: what this one gives, or gets where it gives nothing.
    MPI_Barrier PMPI_Barrier (comm);
    MPI_Ibarrier PMPI_Ibarrier (comm, request);
    MPI_Bcast PMPI_Bcast (memory, count, datatype, root, comm) |mpi| mpi.rooted(root, Int(count), datatype);
    MPI_Bcast_c PMPI_Bcast_c (memory, count, datatype, root, comm) |mpi| mpi.rooted(root, Wide(count), datatype);
    MPI_Ibcast PMPI_Ibcast (memory, count, datatype, root, comm, request) |mpi| mpi.rooted(root, Int(count), datatype);
    MPI_Ibcast_c PMPI_Ibcast_c (memory, count, datatype, root, comm, request) |mpi| mpi.rooted(root, Wide(count), datatype);
    MPI_Gather PMPI_Gather (memory, count, datatype, into, room, as_type, root, comm) |mpi| mpi.given(memory).rooted(root, Int(count), datatype);
    MPI_Gather_c PMPI_Gather_c (memory, count, datatype, into, room, as_type, root, comm) |mpi| mpi.given(memory).rooted(root, Wide(count), datatype);
    MPI_Igather PMPI_Igather (memory, count, datatype, into, room, as_type, root, comm, request) |mpi| mpi.given(memory).rooted(root, Int(count), datatype);
    MPI_Igather_c PMPI_Igather_c (memory, count, datatype, into, room, as_type, root, comm, request) |mpi| mpi.given(memory).rooted(root, Wide(count), datatype);
    MPI_Gatherv PMPI_Gatherv (memory, count, datatype, into, rooms, places, as_type, root, comm) |mpi| mpi.given(memory).rooted(root, Int(count), datatype);
    MPI_Igatherv PMPI_Igatherv (memory, count, datatype, into, rooms, places, as_type, root, comm, request) |mpi| mpi.given(memory).rooted(root, Int(count), datatype);
    MPI_Scatter PMPI_Scatter (memory, count, datatype, into, room, as_type, root, comm) |mpi| mpi.given(into).rooted(root, Int(room), as_type);
    MPI_Scatter_c PMPI_Scatter_c (memory, count, datatype, into, room, as_type, root, comm) |mpi| mpi.given(into).rooted(root, Wide(room), as_type);
    MPI_Iscatter PMPI_Iscatter (memory, count, datatype, into, room, as_type, root, comm, request) |mpi| mpi.given(into).rooted(root, Int(room), as_type);
    MPI_Iscatter_c PMPI_Iscatter_c (memory, count, datatype, into, room, as_type, root, comm, request) |mpi| mpi.given(into).rooted(root, Wide(room), as_type);
    MPI_Scatterv PMPI_Scatterv (memory, counts, places, datatype, into, room, as_type, root, comm) |mpi| mpi.given(into).rooted(root, Int(room), as_type);
    MPI_Iscatterv PMPI_Iscatterv (memory, counts, places, datatype, into, room, as_type, root, comm, request) |mpi| mpi.given(into).rooted(root, Int(room), as_type);
    MPI_Allgather PMPI_Allgather (memory, count, datatype, into, room, as_type, comm) |mpi| mpi.given(memory).bytes(Int(count), datatype);
    MPI_Allgather_c PMPI_Allgather_c (memory, count, datatype, into, room, as_type, comm) |mpi| mpi.given(memory).bytes(Wide(count), datatype);
    MPI_Iallgather PMPI_Iallgather (memory, count, datatype, into, room, as_type, comm, request) |mpi| mpi.given(memory).bytes(Int(count), datatype);
    MPI_Iallgather_c PMPI_Iallgather_c (memory, count, datatype, into, room, as_type, comm, request) |mpi| mpi.given(memory).bytes(Wide(count), datatype);
    MPI_Allgatherv PMPI_Allgatherv (memory, count, datatype, into, rooms, places, as_type, comm) |mpi| mpi.given(memory).bytes(Int(count), datatype);
    MPI_Iallgatherv PMPI_Iallgatherv (memory, count, datatype, into, rooms, places, as_type, comm, request) |mpi| mpi.given(memory).bytes(Int(count), datatype);
    MPI_Alltoall PMPI_Alltoall (memory, count, datatype, into, room, as_type, comm) |mpi| mpi.given(memory).to_all(Int(count), datatype, comm);
    MPI_Alltoall_c PMPI_Alltoall_c (memory, count, datatype, into, room, as_type, comm) |mpi| mpi.given(memory).to_all(Wide(count), datatype, comm);
    MPI_Ialltoall PMPI_Ialltoall (memory, count, datatype, into, room, as_type, comm, request) |mpi| mpi.given(memory).to_all(Int(count), datatype, comm);
    MPI_Ialltoall_c PMPI_Ialltoall_c (memory, count, datatype, into, room, as_type, comm, request) |mpi| mpi.given(memory).to_all(Wide(count), datatype, comm);
    MPI_Alltoallv PMPI_Alltoallv (memory, counts, places, datatype, into, rooms, at, as_type, comm) |mpi| mpi.given(memory).sum(counts, datatype, comm);
    MPI_Ialltoallv PMPI_Ialltoallv (memory, counts, places, datatype, into, rooms, at, as_type, comm, request) |mpi| mpi.given(memory).sum(counts, datatype, comm);
    MPI_Alltoallw PMPI_Alltoallw (memory, counts, places, datatypes, into, rooms, at, as_types, comm);
    MPI_Ialltoallw PMPI_Ialltoallw (memory, counts, places, datatypes, into, rooms, at, as_types, comm, request);
    MPI_Reduce PMPI_Reduce (memory, into, count, datatype, op, root, comm) |mpi| mpi.rooted(root, Int(count), datatype);
    MPI_Reduce_c PMPI_Reduce_c (memory, into, count, datatype, op, root, comm) |mpi| mpi.rooted(root, Wide(count), datatype);
    MPI_Ireduce PMPI_Ireduce (memory, into, count, datatype, op, root, comm, request) |mpi| mpi.rooted(root, Int(count), datatype);
    MPI_Ireduce_c PMPI_Ireduce_c (memory, into, count, datatype, op, root, comm, request) |mpi| mpi.rooted(root, Wide(count), datatype);
    MPI_Allreduce PMPI_Allreduce (memory, into, count, datatype, op, comm) |mpi| mpi.bytes(Int(count), datatype);
    MPI_Allreduce_c PMPI_Allreduce_c (memory, into, count, datatype, op, comm) |mpi| mpi.bytes(Wide(count), datatype);
    MPI_Iallreduce PMPI_Iallreduce (memory, into, count, datatype, op, comm, request) |mpi| mpi.bytes(Int(count), datatype);
    MPI_Iallreduce_c PMPI_Iallreduce_c (memory, into, count, datatype, op, comm, request) |mpi| mpi.bytes(Wide(count), datatype);
    MPI_Scan PMPI_Scan (memory, into, count, datatype, op, comm) |mpi| mpi.bytes(Int(count), datatype);
    MPI_Scan_c PMPI_Scan_c (memory, into, count, datatype, op, comm) |mpi| mpi.bytes(Wide(count), datatype);
    MPI_Iscan PMPI_Iscan (memory, into, count, datatype, op, comm, request) |mpi| mpi.bytes(Int(count), datatype);
    MPI_Iscan_c PMPI_Iscan_c (memory, into, count, datatype, op, comm, request) |mpi| mpi.bytes(Wide(count), datatype);
    MPI_Exscan PMPI_Exscan (memory, into, count, datatype, op, comm) |mpi| mpi.bytes(Int(count), datatype);
    MPI_Exscan_c PMPI_Exscan_c (memory, into, count, datatype, op, comm) |mpi| mpi.bytes(Wide(count), datatype);
    MPI_Iexscan PMPI_Iexscan (memory, into, count, datatype, op, comm, request) |mpi| mpi.bytes(Int(count), datatype);
    MPI_Iexscan_c PMPI_Iexscan_c (memory, into, count, datatype, op, comm, request) |mpi| mpi.bytes(Wide(count), datatype);
    MPI_Reduce_scatter PMPI_Reduce_scatter (memory, into, counts, datatype, op, comm) |mpi| mpi.sum_of_own(counts, datatype, comm);
    MPI_Ireduce_scatter PMPI_Ireduce_scatter (memory, into, counts, datatype, op, comm, request) |mpi| mpi.sum_of_own(counts, datatype, comm);
    MPI_Reduce_scatter_block PMPI_Reduce_scatter_block (memory, into, count, datatype, op, comm) |mpi| mpi.to_all(Int(count), datatype, comm);
    MPI_Reduce_scatter_block_c PMPI_Reduce_scatter_block_c (memory, into, count, datatype, op, comm) |mpi| mpi.to_all(Wide(count), datatype, comm);
    MPI_Ireduce_scatter_block PMPI_Ireduce_scatter_block (memory, into, count, datatype, op, comm, request) |mpi| mpi.to_all(Int(count), datatype, comm);
    MPI_Ireduce_scatter_block_c PMPI_Ireduce_scatter_block_c (memory, into, count, datatype, op, comm, request) |mpi| mpi.to_all(Wide(count), datatype, comm);
    MPI_Neighbor_allgather PMPI_Neighbor_allgather (memory, count, datatype, into, room, as_type, comm) |mpi| mpi.bytes(Int(count), datatype);
    MPI_Ineighbor_allgather PMPI_Ineighbor_allgather (memory, count, datatype, into, room, as_type, comm, request) |mpi| mpi.bytes(Int(count), datatype);
    MPI_Neighbor_allgatherv PMPI_Neighbor_allgatherv (memory, count, datatype, into, rooms, places, as_type, comm) |mpi| mpi.bytes(Int(count), datatype);
    MPI_Ineighbor_allgatherv PMPI_Ineighbor_allgatherv (memory, count, datatype, into, rooms, places, as_type, comm, request) |mpi| mpi.bytes(Int(count), datatype);
    MPI_Neighbor_alltoall PMPI_Neighbor_alltoall (memory, count, datatype, into, room, as_type, comm);
    MPI_Ineighbor_alltoall PMPI_Ineighbor_alltoall (memory, count, datatype, into, room, as_type, comm, request);
    MPI_Neighbor_alltoallv PMPI_Neighbor_alltoallv (memory, counts, places, datatype, into, rooms, at, as_type, comm);
    MPI_Ineighbor_alltoallv PMPI_Ineighbor_alltoallv (memory, counts, places, datatype, into, rooms, at, as_type, comm, request);
    MPI_Neighbor_alltoallw PMPI_Neighbor_alltoallw (memory, counts, places, datatypes, into, rooms, at, as_types, comm);
    MPI_Ineighbor_alltoallw PMPI_Ineighbor_alltoallw (memory, counts, places, datatypes, into, rooms, at, as_types, comm, request);
    // Communicators.
    MPI_Comm_dup PMPI_Comm_dup (comm, new);
    MPI_Comm_dup_with_info PMPI_Comm_dup_with_info (comm, info, new);
    MPI_Comm_idup PMPI_Comm_idup (comm, new, request);
    MPI_Comm_split PMPI_Comm_split (comm, color, key, new);
    MPI_Comm_split_type PMPI_Comm_split_type (comm, kind, key, info, new);
    MPI_Comm_create PMPI_Comm_create (comm, group, new);
    MPI_Comm_create_group PMPI_Comm_create_group (comm, group, tag, new);
    MPI_Comm_free PMPI_Comm_free (comm);
    MPI_Comm_disconnect PMPI_Comm_disconnect (comm);
    MPI_Comm_spawn PMPI_Comm_spawn (command, arguments, n, info, root, comm, new, errors);
    MPI_Comm_spawn_multiple PMPI_Comm_spawn_multiple (count, commands, arguments, ns, infos, root, comm, new, errors);
    MPI_Comm_accept PMPI_Comm_accept (port, info, root, comm, new);
    MPI_Comm_connect PMPI_Comm_connect (port, info, root, comm, new);
    MPI_Intercomm_create PMPI_Intercomm_create (comm, leader, peers, remote, tag, new);
    MPI_Intercomm_merge PMPI_Intercomm_merge (comm, high, new);
    MPI_Cart_create PMPI_Cart_create (comm, n, sizes, periods, reorder, new);
    MPI_Cart_sub PMPI_Cart_sub (comm, remain, new);
    MPI_Graph_create PMPI_Graph_create (comm, n, index, edges, reorder, new);
    MPI_Dist_graph_create PMPI_Dist_graph_create (comm, n, sources, degrees, to, weights, info, reorder, new);
    MPI_Dist_graph_create_adjacent PMPI_Dist_graph_create_adjacent (comm, n_in, sources, in_weights, n_out, to, out_weights, info, reorder, new);
    // Another process's memory.
    MPI_Put PMPI_Put (memory, count, datatype, rank, at, n, as_type, window) |mpi| mpi.bytes(Int(count), datatype);
    MPI_Get PMPI_Get (memory, count, datatype, rank, at, n, as_type, window) |mpi| mpi.bytes(Int(count), datatype);
    MPI_Accumulate PMPI_Accumulate (memory, count, datatype, rank, at, n, as_type, op, window) |mpi| mpi.bytes(Int(count), datatype);
    MPI_Rput PMPI_Rput (memory, count, datatype, rank, at, n, as_type, window, request) |mpi| mpi.bytes(Int(count), datatype);
    MPI_Rget PMPI_Rget (memory, count, datatype, rank, at, n, as_type, window, request) |mpi| mpi.bytes(Int(count), datatype);
    MPI_Raccumulate PMPI_Raccumulate (memory, count, datatype, rank, at, n, as_type, op, window, request) |mpi| mpi.bytes(Int(count), datatype);
    MPI_Get_accumulate PMPI_Get_accumulate (memory, count, datatype, into, room, into_type, rank, at, n, as_type, op, window) |mpi| mpi.bytes(Int(room), into_type);
    MPI_Rget_accumulate PMPI_Rget_accumulate (memory, count, datatype, into, room, into_type, rank, at, n, as_type, op, window, request) |mpi| mpi.bytes(Int(room), into_type);
    MPI_Fetch_and_op PMPI_Fetch_and_op (memory, into, datatype, rank, at, op, window) |mpi| mpi.bytes(Int(1), datatype);
    MPI_Compare_and_swap PMPI_Compare_and_swap (memory, compared, into, datatype, rank, at, window) |mpi| mpi.bytes(Int(1), datatype);
    MPI_Win_create PMPI_Win_create (memory, size, unit, info, comm, window);
    MPI_Win_allocate PMPI_Win_allocate (size, unit, info, comm, memory, window);
    MPI_Win_allocate_shared PMPI_Win_allocate_shared (size, unit, info, comm, memory, window);
    MPI_Win_create_dynamic PMPI_Win_create_dynamic (info, comm, window);
    MPI_Win_free PMPI_Win_free (window);
    MPI_Win_fence PMPI_Win_fence (assertion, window);
    MPI_Win_lock PMPI_Win_lock (kind, rank, assertion, window);
    MPI_Win_unlock PMPI_Win_unlock (rank, window);
    MPI_Win_lock_all PMPI_Win_lock_all (assertion, window);
    MPI_Win_unlock_all PMPI_Win_unlock_all (window);
    MPI_Win_flush PMPI_Win_flush (rank, window);
    MPI_Win_flush_all PMPI_Win_flush_all (window);
    MPI_Win_flush_local PMPI_Win_flush_local (rank, window);
    MPI_Win_flush_local_all PMPI_Win_flush_local_all (window);
    MPI_Win_post PMPI_Win_post (group, assertion, window);
    MPI_Win_start PMPI_Win_start (group, assertion, window);
    MPI_Win_complete PMPI_Win_complete (window);
    MPI_Win_wait PMPI_Win_wait (window);
    MPI_Win_test PMPI_Win_test (window, flag);
    MPI_Win_sync PMPI_Win_sync (window);
}

mpi! {
    MPI_Recv PMPI_Recv (memory, count, datatype, from, tag, comm, status) |next| receiving(const { function() }, status, |status| next(memory, count, datatype, from, tag, comm, status));
    MPI_Recv_c PMPI_Recv_c (memory, count, datatype, from, tag, comm, status) |next| receiving(const { function() }, status, |status| next(memory, count, datatype, from, tag, comm, status));
    MPI_Mrecv PMPI_Mrecv (memory, count, datatype, message, status) |next| receiving(const { function() }, status, |status| next(memory, count, datatype, message, status));
    MPI_Mrecv_c PMPI_Mrecv_c (memory, count, datatype, message, status) |next| receiving(const { function() }, status, |status| next(memory, count, datatype, message, status));
}

/// Counts a call: once, however many functions of MPI it calls in turn.
#[inline(always)]
pub(super) fn timed(
    function: MpiFunction,
    bytes: impl FnOnce(Asked) -> u64,
    call: impl FnOnce() -> c_int,
) -> c_int {
    if !page::is_on() {
        return call();
    }
    let Some((inside, abi)) = enter() else { return call() };
    let start = clock::now();
    let result = call();
    let end = clock::now();
    inside.leave();
    let bytes = if result == 0 { bytes(Asked { abi, is_given: true }) } else { 0 };
    inside.count(function, bytes, end.wrapping_sub(start));
    result
}

/// Counts a call whose status tells what has come. A program that wants no status gets none, but we do.
fn receiving(function: MpiFunction, status: usize, call: impl FnOnce(usize) -> c_int) -> c_int {
    if !page::is_on() {
        return call(status);
    }
    let Some((inside, abi)) = enter() else { return call(status) };
    let mut own: Status = [0; 8];
    let status = if abi.ignores_status(status) { &raw mut own as usize } else { status };
    let start = clock::now();
    let result = call(status);
    let end = clock::now();
    inside.leave();
    let bytes = if result == 0 { abi.bytes(status).unwrap_or(0) } else { 0 };
    inside.count(function, bytes, end.wrapping_sub(start));
    result
}

/// Access to MPI for questions about the arguments of a call.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    abi: Abi,
    /// Whether the arguments mean anything.
    is_given: bool,
}

impl Asked {
    /// Nothing, if this buffer is given as "in place".
    fn given(self, memory: usize) -> Self {
        Self { is_given: self.is_given && !self.abi.is_in_place(memory), ..self }
    }

    fn bytes(self, count: Count, datatype: usize) -> u64 {
        if self.is_given { count.bytes(self.abi, datatype) } else { 0 }
    }

    /// Nothing, if the root is none of the ranks: then, between two groups, this process may take no part.
    fn rooted(self, root: usize, count: Count, datatype: usize) -> u64 {
        if root as c_int >= 0 { self.bytes(count, datatype) } else { 0 }
    }

    fn to_all(self, count: Count, datatype: usize, comm: usize) -> u64 {
        let n = if self.is_given { self.abi.n_peers(comm).unwrap_or(0) } else { 0 };
        self.bytes(count, datatype).saturating_mul(n as u64)
    }

    /// Counts for each process that is spoken to.
    fn sum(self, counts: usize, datatype: usize, comm: usize) -> u64 {
        self.add_up(counts, datatype, self.is_given.then(|| self.abi.n_peers(comm)).flatten())
    }

    /// Counts for each process of this one's own group.
    fn sum_of_own(self, counts: usize, datatype: usize, comm: usize) -> u64 {
        self.add_up(counts, datatype, self.abi.n_own(comm))
    }

    fn add_up(self, counts: usize, datatype: usize, n: Option<u32>) -> u64 {
        let n = n.unwrap_or(0) as usize;
        if counts == 0 || n == 0 {
            return 0;
        }
        // SAFETY: the call, which went well, has read as many counts.
        let counts = unsafe { core::slice::from_raw_parts(counts as *const c_int, n) };
        let sum: u64 = counts.iter().map(|&count| u64::try_from(count).unwrap_or(0)).sum();
        self.bytes(Wide(sum as usize), datatype)
    }
}
