//! Where the fields stand that our programs read, in this very kernel.

use crate::btf::{Btf, Kind};

/// Offsets of fields, in bytes, and numbers of types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) task: Task,
    pub(crate) file: File,
    /// Files of a process: the table, and what is in it.
    pub(crate) table: i16,
    pub(crate) table_size: i16,
    pub(crate) table_files: i16,
    /// The program that is being started.
    pub(crate) program_name: i16,
    pub(crate) arguments: (i16, i16),
    /// The function that makes a number a pointer to a type, which is read without a helper's cost; not in kernels before 6.2.
    pub(crate) cast: Option<Cast>,
    pub(crate) ring: Result<Uring, &'static str>,
    pub(crate) tracepoints: Tracepoints,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Task {
    pub(crate) files: i16,
    pub(crate) memory: i16,
    pub(crate) tid: i16,
    pub(crate) pid: i16,
    pub(crate) parent: i16,
    /// The state of its thread.
    pub(crate) status: i16,
    /// Its rights, and in them the user in whose name it acts.
    pub(crate) rights: i16,
    pub(crate) acts_as: i16,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct File {
    pub(crate) inode: i16,
    pub(crate) position: i16,
    pub(crate) mode: i16,
    pub(crate) number: i16,
    pub(crate) file_system: i16,
    pub(crate) device: i16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cast {
    pub(crate) function: u32,
    /// The type whose first field is a pointer.
    pub(crate) pointer: u32,
    pub(crate) file: u32,
}

/// Layout of a request of an `io_uring`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Uring {
    pub(crate) submit: u32,
    pub(crate) complete: u32,
    pub(crate) opcode: i16,
    pub(crate) file: i16,
    pub(crate) position: i16,
    /// Whether the tracepoint hands over the completion as a structure, or its fields one by one.
    pub(crate) has_structure: bool,
}

/// Numbers of the types of the tracepoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tracepoints {
    pub(crate) enter: u32,
    pub(crate) exit: u32,
    pub(crate) new_task: u32,
    pub(crate) exec: u32,
    pub(crate) end: u32,
}

impl Layout {
    /// Finds all of it; names what this kernel does not have.
    pub(crate) fn of(btf: &Btf) -> Result<Self, String> {
        let field = |structure: &str, field: &str| {
            btf.offset(structure, field).ok_or_else(|| format!("this kernel has no {structure}.{field}"))
        };
        let tracepoint = |name: &str| {
            btf.find(Kind::Typedef, &format!("btf_trace_{name}"))
                .ok_or_else(|| format!("this kernel has no tracepoint {name}"))
        };
        Ok(Self {
            task: Task {
                files: field("task_struct", "files")?,
                memory: field("task_struct", "mm")?,
                tid: field("task_struct", "pid")?,
                pid: field("task_struct", "tgid")?,
                parent: field("task_struct", "real_parent")?,
                rights: field("task_struct", "cred")?,
                acts_as: field("cred", "euid")?,
                status: field("task_struct", "thread_info")? + field("thread_info", "status")?,
            },
            file: File {
                inode: field("file", "f_inode")?,
                position: field("file", "f_pos")?,
                mode: field("inode", "i_mode")?,
                number: field("inode", "i_ino")?,
                file_system: field("inode", "i_sb")?,
                device: field("super_block", "s_dev")?,
            },
            table: field("files_struct", "fdt")?,
            table_size: field("fdtable", "max_fds")?,
            table_files: field("fdtable", "fd")?,
            program_name: field("linux_binprm", "filename")?,
            arguments: (field("mm_struct", "arg_start")?, field("mm_struct", "arg_end")?),
            cast: cast(btf),
            ring: uring(btf),
            tracepoints: Tracepoints {
                enter: tracepoint("sys_enter")?,
                exit: tracepoint("sys_exit")?,
                new_task: tracepoint("task_newtask")?,
                exec: tracepoint("sched_process_exec")?,
                end: tracepoint("sched_process_exit")?,
            },
        })
    }
}

fn cast(btf: &Btf) -> Option<Cast> {
    Some(Cast {
        function: btf.find(Kind::Function, "bpf_rdonly_cast")?,
        pointer: btf.find(Kind::Struct, "list_head")?,
        file: btf.find(Kind::Struct, "file")?,
    })
}

/// The tracepoints of `io_uring` have had several lists of arguments.
fn uring(btf: &Btf) -> Result<Uring, &'static str> {
    let tracepoint = |name: &str| btf.find(Kind::Typedef, &format!("btf_trace_{name}"));
    let submit = tracepoint("io_uring_submit_req").ok_or("no tracepoint io_uring_submit_req (before 6.3)")?;
    let complete = tracepoint("io_uring_complete").ok_or("no tracepoint io_uring_complete")?;
    let arguments = btf.arguments("io_uring_complete").ok_or("io_uring_complete has no known arguments")?;
    let has_structure = arguments.get(2) == Some(&Some(b"io_uring_cqe"));
    if !has_structure && arguments.len() < 5 {
        return Err("io_uring_complete has no known arguments");
    }
    // The request begins with the command, and that of a read or write with what has the position.
    let is_front = |structure, field| btf.offset(structure, field) == Some(0);
    if !is_front("io_rw", "kiocb") || !is_front("io_kiocb", "cmd") {
        return Err("requests of io_uring have no known layout");
    }
    let offset = |structure, field| btf.offset(structure, field).ok_or("io_kiocb lacks a field");
    Ok(Uring {
        submit,
        complete,
        opcode: offset("io_kiocb", "opcode")?,
        file: offset("io_kiocb", "file")?,
        position: offset("kiocb", "ki_pos")?,
        has_structure,
    })
}
