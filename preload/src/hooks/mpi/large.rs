//! The functions of MPI 4 whose counts have 64 bits, with `_c` in their names. Programs such as
//! mpi4py ask at run time whether their MPI has them, and find ours in any case. Where MPI has
//! none, the call is made without the `_c` if an `int` holds its counts, as mpi4py would.

use std::ffi::c_int;

use scr_abi::sync_kind;

use super::calls::Role;
use crate::base::real::Symbol;

/// All MPIs without these functions have this value.
const ERR_COUNT: c_int = 2;

struct Counts {
    numbers: &'static [usize],
    /// These have a number for each rank.
    lists: &'static [usize],
    /// These mean nothing if the first argument is MPI_IN_PLACE.
    of_sent: &'static [usize],
    /// On an inter-communicator the lists have a number for each rank of the other group.
    of_others: bool,
}

const NUMBER_2: Counts = Counts { numbers: &[2], lists: &[], of_sent: &[], of_others: false };
const NUMBER_3: Counts = Counts { numbers: &[3], ..NUMBER_2 };
const SENT_AND_RECEIVED: Counts = Counts { numbers: &[1, 4], of_sent: &[1], ..NUMBER_2 };
const GATHERED: Counts = Counts { numbers: &[1], lists: &[4, 5], of_sent: &[1], of_others: true };
const ALL_TO_ALL: Counts =
    Counts { numbers: &[], lists: &[1, 2, 5, 6], of_sent: &[1, 2], of_others: true };
const SCATTERED: Counts = Counts { numbers: &[], lists: &[2], of_sent: &[], of_others: false };

macro_rules! large {
    ($( ($name:literal, $c:ident, $p:ident, $counts:expr, $($arg:ident)*) => $before:expr; )+) => {
        $(
            large_one! { concat!("MPI_", $name), $c, $counts, $($arg)* => $before }
            large_one! { concat!("PMPI_", $name), $p, $counts, $($arg)* => $before }
        )+
    };
}

macro_rules! large_one {
    ($symbol:expr, $name:ident, $counts:expr, $($arg:ident)* => $before:expr) => {
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)]
        unsafe extern "C-unwind" fn $name($($arg: usize),*) -> c_int {
            static LARGE: Symbol = Symbol::new(super::calls::c_string(concat!($symbol, "_c\0")));
            static PLAIN: Symbol = Symbol::new(super::calls::c_string(concat!($symbol, "\0")));
            let mut arguments = [$($arg),*];
            // Lives until the call is over.
            let mut narrowed = Vec::new();
            let address = match (LARGE.next_or_private(), PLAIN.next_or_private()) {
                (Some(large), _) => large,
                (None, Some(plain)) => match narrow(&mut arguments, &$counts) {
                    Some(lists) => {
                        narrowed = lists;
                        plain
                    }
                    None => return ERR_COUNT,
                },
                (None, None) => return super::calls::missing(concat!($symbol, "_c")),
            };
            // SAFETY: as of `mpi_one`; both functions take as many arguments, and those that differ
            // are what the one that was found takes.
            let result = unsafe {
                let real = core::mem::transmute::<
                    usize,
                    unsafe extern "C-unwind" fn($(super::calls::mpi_one!(@word $arg)),*) -> c_int,
                >(address.get());
                super::calls::around(arguments, $before, |[$($arg),*]| real($($arg),*))
            };
            drop(narrowed);
            result
        }
    };
}

large! {
    ("Allreduce", MPI_Allreduce_c, PMPI_Allreduce_c, NUMBER_2, send receive count datatype op comm)
        => Role::Sync(5, sync_kind::COLLECTIVE);
    ("Alltoall", MPI_Alltoall_c, PMPI_Alltoall_c, SENT_AND_RECEIVED,
        send scount stype receive rcount rtype comm) => Role::Sync(6, sync_kind::COLLECTIVE);
    ("Alltoallv", MPI_Alltoallv_c, PMPI_Alltoallv_c, ALL_TO_ALL,
        send scounts sdispls stype receive rcounts rdispls rtype comm)
        => Role::Sync(8, sync_kind::COLLECTIVE);
    ("Alltoallw", MPI_Alltoallw_c, PMPI_Alltoallw_c, ALL_TO_ALL,
        send scounts sdispls stypes receive rcounts rdispls rtypes comm)
        => Role::Sync(8, sync_kind::COLLECTIVE);
    ("Allgather", MPI_Allgather_c, PMPI_Allgather_c, SENT_AND_RECEIVED,
        send scount stype receive rcount rtype comm) => Role::Sync(6, sync_kind::COLLECTIVE);
    ("Allgatherv", MPI_Allgatherv_c, PMPI_Allgatherv_c, GATHERED,
        send scount stype receive rcounts displs rtype comm)
        => Role::Sync(7, sync_kind::COLLECTIVE);
    ("Reduce_scatter", MPI_Reduce_scatter_c, PMPI_Reduce_scatter_c, SCATTERED,
        send receive counts datatype op comm) => Role::Sync(5, sync_kind::COLLECTIVE);
    ("Reduce_scatter_block", MPI_Reduce_scatter_block_c, PMPI_Reduce_scatter_block_c, NUMBER_2,
        send receive count datatype op comm) => Role::Sync(5, sync_kind::COLLECTIVE);
    ("File_read", MPI_File_read_c, PMPI_File_read_c, NUMBER_2, file a b c d) => Role::File;
    ("File_read_all", MPI_File_read_all_c, PMPI_File_read_all_c, NUMBER_2, file a b c d)
        => Role::FileSync;
    ("File_read_shared", MPI_File_read_shared_c, PMPI_File_read_shared_c, NUMBER_2, file a b c d)
        => Role::File;
    ("File_read_ordered", MPI_File_read_ordered_c, PMPI_File_read_ordered_c, NUMBER_2, file a b c d)
        => Role::FileSync;
    ("File_iread", MPI_File_iread_c, PMPI_File_iread_c, NUMBER_2, file a b c d) => Role::File;
    ("File_iread_all", MPI_File_iread_all_c, PMPI_File_iread_all_c, NUMBER_2, file a b c d)
        => Role::File;
    ("File_iread_shared", MPI_File_iread_shared_c, PMPI_File_iread_shared_c, NUMBER_2, file a b c d)
        => Role::File;
    ("File_read_all_begin", MPI_File_read_all_begin_c, PMPI_File_read_all_begin_c, NUMBER_2,
        file a b c) => Role::File;
    ("File_read_ordered_begin", MPI_File_read_ordered_begin_c, PMPI_File_read_ordered_begin_c,
        NUMBER_2, file a b c) => Role::File;
    ("File_read_at", MPI_File_read_at_c, PMPI_File_read_at_c, NUMBER_3, file a b c d e)
        => Role::File;
    ("File_read_at_all", MPI_File_read_at_all_c, PMPI_File_read_at_all_c, NUMBER_3, file a b c d e)
        => Role::FileSync;
    ("File_iread_at", MPI_File_iread_at_c, PMPI_File_iread_at_c, NUMBER_3, file a b c d e)
        => Role::File;
    ("File_iread_at_all", MPI_File_iread_at_all_c, PMPI_File_iread_at_all_c, NUMBER_3,
        file a b c d e) => Role::File;
    ("File_read_at_all_begin", MPI_File_read_at_all_begin_c, PMPI_File_read_at_all_begin_c,
        NUMBER_3, file a b c d) => Role::File;
    ("File_write", MPI_File_write_c, PMPI_File_write_c, NUMBER_2, file a b c d) => Role::File;
    ("File_write_all", MPI_File_write_all_c, PMPI_File_write_all_c, NUMBER_2, file a b c d)
        => Role::FileSync;
    ("File_write_shared", MPI_File_write_shared_c, PMPI_File_write_shared_c, NUMBER_2, file a b c d)
        => Role::File;
    ("File_write_ordered", MPI_File_write_ordered_c, PMPI_File_write_ordered_c, NUMBER_2,
        file a b c d) => Role::FileSync;
    ("File_iwrite", MPI_File_iwrite_c, PMPI_File_iwrite_c, NUMBER_2, file a b c d) => Role::File;
    ("File_iwrite_all", MPI_File_iwrite_all_c, PMPI_File_iwrite_all_c, NUMBER_2, file a b c d)
        => Role::File;
    ("File_iwrite_shared", MPI_File_iwrite_shared_c, PMPI_File_iwrite_shared_c, NUMBER_2,
        file a b c d) => Role::File;
    ("File_write_all_begin", MPI_File_write_all_begin_c, PMPI_File_write_all_begin_c, NUMBER_2,
        file a b c) => Role::File;
    ("File_write_ordered_begin", MPI_File_write_ordered_begin_c, PMPI_File_write_ordered_begin_c,
        NUMBER_2, file a b c) => Role::File;
    ("File_write_at", MPI_File_write_at_c, PMPI_File_write_at_c, NUMBER_3, file a b c d e)
        => Role::File;
    ("File_write_at_all", MPI_File_write_at_all_c, PMPI_File_write_at_all_c, NUMBER_3,
        file a b c d e) => Role::FileSync;
    ("File_iwrite_at", MPI_File_iwrite_at_c, PMPI_File_iwrite_at_c, NUMBER_3, file a b c d e)
        => Role::File;
    ("File_iwrite_at_all", MPI_File_iwrite_at_all_c, PMPI_File_iwrite_at_all_c, NUMBER_3,
        file a b c d e) => Role::File;
    ("File_write_at_all_begin", MPI_File_write_at_all_begin_c, PMPI_File_write_at_all_begin_c,
        NUMBER_3, file a b c d) => Role::File;
}

/// Numbers stay where they are, lists are made anew. `None`: one is too large.
fn narrow(arguments: &mut [usize], counts: &Counts) -> Option<Vec<Vec<c_int>>> {
    let is_in_place = [1, usize::MAX].contains(&arguments[0]);
    let means_something = |at: &&usize| !(is_in_place && counts.of_sent.contains(at));
    for &at in counts.numbers.iter().filter(means_something) {
        c_int::try_from(arguments[at] as i64).ok()?;
    }
    let lists = counts.lists.iter().filter(means_something);
    let lists: Vec<usize> = lists.copied().filter(|&at| arguments[at] != 0).collect();
    let Some(&comm) = arguments.last().filter(|_| !lists.is_empty()) else {
        return Some(Vec::new());
    };
    let ranks = ranks_of(comm, counts.of_others)?;
    let mut made = Vec::with_capacity(lists.len());
    for at in lists {
        // SAFETY: the program passes a list with a number for each rank.
        let long = unsafe { std::slice::from_raw_parts(arguments[at] as *const i64, ranks) };
        let short = long.iter().map(|&number| c_int::try_from(number).ok());
        let short: Vec<c_int> = short.collect::<Option<_>>()?;
        arguments[at] = short.as_ptr() as usize;
        made.push(short);
    }
    Some(made)
}

type Ask = unsafe extern "C" fn(usize, *mut c_int) -> c_int;

fn ranks_of(comm: usize, of_others: bool) -> Option<usize> {
    static IS_INTER: Symbol = Symbol::new(c"PMPI_Comm_test_inter");
    static OWN: Symbol = Symbol::new(c"PMPI_Comm_size");
    static OTHERS: Symbol = Symbol::new(c"PMPI_Comm_remote_size");
    let ask = |symbol: &'static Symbol| {
        let mut answer: c_int = 0;
        // SAFETY: the functions of these names take a communicator and a place for an int.
        let code = unsafe {
            let address = symbol.next_or_private()?.get();
            let real = std::mem::transmute::<usize, Ask>(address);
            real(comm, &raw mut answer)
        };
        (code == 0).then_some(answer)
    };
    let others = of_others && ask(&IS_INTER)? != 0;
    usize::try_from(ask(if others { &OTHERS } else { &OWN })?).ok()
}
