//! How "go" comes from rank to rank: rank 0 tells some, and each of them others.

use std::time::{Duration, Instant};

use crate::error::Result;

/// Longest pause between two looks at what MPI has brought.
const LISTEN: Duration = Duration::from_millis(1);

/// To how many others a rank passes "go" on.
const FAN_OUT: usize = 8;

/// One word from rank to rank, by the transport of the collectives that follow.
pub trait Herald {
    /// Says it to `rank`, which listens.
    fn tell(&self, rank: usize) -> Result<()>;
    /// Whether `rank` has said it; once it has, it is taken out.
    fn has_told(&self, rank: usize) -> Result<bool>;
}

/// A rank's place among those that tell one another.
pub(super) struct Chain<'a> {
    pub herald: &'a dyn Herald,
    pub rank: usize,
    pub size: usize,
}

impl Chain<'_> {
    /// Listens for a while; true if "go" has come. Rank 0 listens to the last rank, of which
    /// nothing comes: in some MPIs what it has sent within MPI_Init leaves only while it calls MPI,
    /// and another rank does not return from its MPI_Init before (MPICH 5 over TCP).
    pub(super) fn listen(&self, time: Duration) -> Result<bool> {
        let begin = Instant::now();
        let teller = self.rank.checked_sub(1).map_or(self.size - 1, |before| before / FAN_OUT);
        loop {
            if self.herald.has_told(teller)? {
                return Ok(true);
            }
            let Some(left) = time.checked_sub(begin.elapsed()) else { return Ok(false) };
            std::thread::sleep(left.min(LISTEN));
        }
    }

    /// Tells it those who listen to this rank.
    pub(super) fn pass_on(&self) -> Result<()> {
        let first = FAN_OUT * self.rank + 1;
        (first..self.size.min(first + FAN_OUT)).try_for_each(|other| self.herald.tell(other))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[derive(Default)]
    struct Calls {
        told: RefCell<Vec<usize>>,
        asked: RefCell<Vec<usize>>,
    }

    impl Herald for Calls {
        fn tell(&self, rank: usize) -> Result<()> {
            self.told.borrow_mut().push(rank);
            Ok(())
        }

        fn has_told(&self, rank: usize) -> Result<bool> {
            self.asked.borrow_mut().push(rank);
            Ok(false)
        }
    }

    #[test]
    fn each_rank_listens_to_the_one_that_tells_it() {
        for size in [2, 3, 9, 10, 100] {
            let mut told = 0;
            for rank in 0..size {
                let calls = Calls::default();
                Chain { herald: &calls, rank, size }.pass_on().unwrap();
                for other in calls.told.take() {
                    let chain = Chain { herald: &calls, rank: other, size };
                    assert!(!chain.listen(Duration::ZERO).unwrap());
                    assert_eq!(calls.asked.take(), [rank]);
                    told += 1;
                }
            }
            assert_eq!(told, size - 1);
        }
    }

    /// Its MPI would bring nothing on.
    #[test]
    fn rank_0_calls_mpi_while_it_waits() {
        for size in [2, 9] {
            let calls = Calls::default();
            let chain = Chain { herald: &calls, rank: 0, size };
            assert!(!chain.listen(Duration::ZERO).unwrap());
            assert_eq!(calls.asked.take(), [size - 1]);
        }
    }
}
