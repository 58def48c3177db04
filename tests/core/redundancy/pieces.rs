//! The size of the pieces in which redundancy data travels (SCR_MPI_BUF_SIZE).

use scr_core::comm::threads::ThreadWorld;

use super::Cluster;

#[test]
fn the_size_of_the_pieces_changes_the_number_of_messages_and_nothing_else() {
    let sizes = [vec![900_000, 0], vec![], vec![70_001], vec![9, 131_072]];
    for scheme in ["XOR", "PARTNER", "RS2"] {
        let mut calls = usize::MAX;
        for piece_bytes in [4096, 70_000, 128 << 10, usize::MAX] {
            let mut cluster = Cluster { piece_bytes, ..Cluster::new(scheme, &sizes) };
            let now = cluster.encode_on(ThreadWorld::new(4)).calls[0];
            assert!(now < calls, "{scheme}: {now} calls with pieces of {piece_bytes} bytes");
            calls = now;
            cluster.encode();
            let snapshot = cluster.snapshot(1);
            cluster.lose(1);
            cluster.piece_bytes = 5000;
            cluster.rebuild_and_check();
            assert!(cluster.snapshot(1) == snapshot, "{scheme}");
        }
    }
}
