//! Ranks that are joined by sockets of their own, so that a thread of each communicates while the
//! program uses MPI: abstract Unix sockets on a node, TCP between nodes.
//!
//! Addresses and a random secret a rank go through the communicator that exists already. Whoever
//! connects tells the other's secret, and hears his own in return, so no third one is taken for a
//! rank. What travels is as open as the MPI of a cluster is.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixListener, UnixStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::Comm;
use super::mesh::Link;
use crate::bytes::{Reader, Writer};
use crate::error::{Error, Result};
use crate::system::{addresses, await_ready, peer, raise, random_u64, user_id};

/// How long ranks look for one another.
const MEETING: Duration = Duration::from_secs(5);

/// How long one address is tried.
const ATTEMPT: Duration = Duration::from_secs(1);

/// How long no byte may move.
const SILENCE: Duration = Duration::from_secs(60);

type Secret = [u64; 2];

/// Bytes of a greeting: who, a secret.
const GREETING: usize = 24;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Card {
    /// Ranks with the same one reach each other by Unix sockets.
    network: String,
    name: String,
    secret: Secret,
    port: u16,
    addresses: Vec<IpAddr>,
}

impl Card {
    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writer::new();
        out.counted(self.network.as_bytes()).counted(self.name.as_bytes());
        out.word(self.secret[0]).word(self.secret[1]).word16(self.port);
        out.list(&self.addresses, |out, one| _ = out.counted(one.to_string().as_bytes()));
        out.take()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Card> {
        let mut from = Reader::new(bytes);
        let (network, name) = (from.text()?, from.text()?);
        let (secret, port) = ([from.word()?, from.word()?], from.word16()?);
        let addresses = from.list(|from| from.text()?.parse().ok())?;
        from.whole(Card { network, name, secret, port, addresses })
    }
}

/// A connection of either kind; never blocks once it is part of a group.
enum Connection {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Connection {
    fn unix(stream: UnixStream) -> io::Result<Connection> {
        if peer(&stream)?.0 != user_id() {
            return Err(io::Error::other("the other side is another user"));
        }
        stream.set_nonblocking(true)?;
        Ok(Connection::Unix(raise(OwnedFd::from(stream)).into()))
    }

    fn tcp(stream: TcpStream) -> io::Result<Connection> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Connection::Tcp(raise(OwnedFd::from(stream)).into()))
    }

    fn fd(&self) -> RawFd {
        match self {
            Connection::Unix(stream) => stream.as_raw_fd(),
            Connection::Tcp(stream) => stream.as_raw_fd(),
        }
    }

    fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Connection::Unix(stream) => (&mut &*stream).read(into),
            Connection::Tcp(stream) => (&mut &*stream).read(into),
        }
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Connection::Unix(stream) => (&mut &*stream).write(bytes),
            Connection::Tcp(stream) => (&mut &*stream).write(bytes),
        }
    }
}

/// Moves `out` `to` one stream and `into` `from` another (or the same) until both are through;
/// gives up when no byte has moved for `patience`.
fn pump(
    out: &[u8],
    to: &Connection,
    into: &mut [u8],
    from: &Connection,
    patience: Duration,
) -> io::Result<()> {
    let (mut sent, mut got) = (0, 0);
    loop {
        let before = (sent, got);
        if sent < out.len() {
            sent += moved(to.write(&out[sent..]))?;
        }
        if got < into.len() {
            got += moved(from.read(&mut into[got..]))?;
        }
        if (sent, got) == (out.len(), into.len()) {
            return Ok(());
        }
        if (sent, got) != before {
            continue;
        }
        let (writes, reads) = ([to.fd()], [from.fd()]);
        let writes = &writes[..usize::from(sent < out.len())];
        let reads = &reads[..usize::from(got < into.len())];
        if !await_ready(writes, reads, patience)? {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
}

fn moved(result: io::Result<usize>) -> io::Result<usize> {
    match result {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Err(error)
            if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) =>
        {
            Ok(0)
        }
        result => result,
    }
}

/// The connections of one rank, by rank; all are closed at the first error.
struct Sockets(Mutex<Vec<Option<Connection>>>);

impl Link for Sockets {
    fn exchange(&self, out: &[u8], to: usize, into: &mut [u8], from: usize) -> Result<()> {
        let mut streams = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (Some(Some(to)), Some(Some(from))) = (streams.get(to), streams.get(from)) else {
            return Err(Error::Comm("the connection to a rank is closed".to_string()));
        };
        let done = pump(out, to, into, from, SILENCE);
        done.map_err(|error| {
            streams.clear(); // the others hear of it
            Error::Comm(format!("the connection to a rank has failed: {error}"))
        })
    }
}

struct Doors {
    card: Card,
    unix: UnixListener,
    tcp: Option<TcpListener>,
}

impl Doors {
    fn open() -> io::Result<Doors> {
        let secret = [random_u64(), random_u64()];
        let name = format!("scr-{:016x}{:016x}", random_u64(), random_u64());
        let unix = UnixListener::bind_addr(&UnixAddr::from_abstract_name(&name)?)?;
        let any = [IpAddr::V6(Ipv6Addr::UNSPECIFIED), IpAddr::V4(Ipv4Addr::UNSPECIFIED)];
        let tcp = any.iter().find_map(|any| TcpListener::bind((*any, 0)).ok());
        let port = tcp.as_ref().and_then(|tcp| tcp.local_addr().ok()).map_or(0, |at| at.port());
        unix.set_nonblocking(true)?;
        if let Some(tcp) = &tcp {
            tcp.set_nonblocking(true)?;
        }
        let addresses = addresses().unwrap_or_default();
        let card = Card { network: network(), name, secret, port, addresses };
        Ok(Doors { card, unix, tcp })
    }

    fn accept(&self, until: Instant) -> io::Result<Connection> {
        loop {
            if let Ok((stream, _)) = self.unix.accept() {
                // Anybody on the node may have come; whom we wait for is still to come.
                if let Ok(stream) = Connection::unix(stream) {
                    return Ok(stream);
                }
                continue;
            }
            if let Some(Ok((stream, _))) = self.tcp.as_ref().map(TcpListener::accept) {
                return Connection::tcp(stream);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let tcp = self.tcp.as_ref().map(|tcp| tcp.as_raw_fd());
            let both: Vec<RawFd> = tcp.into_iter().chain([self.unix.as_raw_fd()]).collect();
            await_ready(&[], &both, left)?;
        }
    }
}

/// What tells that two ranks share their abstract names: kernel and network.
fn network() -> String {
    let space = std::fs::read_link("/proc/self/ns/net").unwrap_or_default();
    format!("{} {}", crate::system::boot_id().unwrap_or_default(), space.display())
}

fn greeting(rank: usize, secret: Secret) -> Vec<u8> {
    Writer::new().word(rank as u64).word(secret[0]).word(secret[1]).take()
}

fn call(
    me: usize,
    own: &Card,
    rank: usize,
    other: &Card,
    until: Instant,
) -> io::Result<Connection> {
    let hello = greeting(me, other.secret);
    let answer = greeting(rank, own.secret);
    let try_one = |stream: Connection| {
        let left = until.saturating_duration_since(Instant::now());
        let mut heard = [0; GREETING];
        pump(&hello, &stream, &mut heard, &stream, left)?;
        match heard[..] == answer[..] {
            true => Ok(stream),
            false => Err(io::Error::other("somebody else has answered")),
        }
    };
    if own.network == other.network {
        let address = UnixAddr::from_abstract_name(&other.name)?;
        return UnixStream::connect_addr(&address).and_then(Connection::unix).and_then(try_one);
    }
    let mut last = io::Error::other("it has no address");
    for address in &other.addresses {
        let address = SocketAddr::new(*address, other.port);
        let stream = TcpStream::connect_timeout(&address, ATTEMPT).and_then(Connection::tcp);
        match stream.and_then(try_one) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn receive(
    me: usize,
    doors: &Doors,
    cards: &[Card],
    streams: &mut [Option<Connection>],
    until: Instant,
) -> io::Result<()> {
    while streams[me + 1..].iter().any(Option::is_none) {
        let stream = doors.accept(until)?;
        let mut heard = [0; GREETING];
        let left = until.saturating_duration_since(Instant::now());
        if pump(&[], &stream, &mut heard, &stream, left.min(ATTEMPT)).is_err() {
            continue; // nobody of ours
        }
        let rank = Reader::new(&heard).size().unwrap_or(usize::MAX);
        let is_ours =
            rank > me && rank < cards.len() && heard[..] == greeting(rank, doors.card.secret)[..];
        if is_ours {
            let answer = greeting(me, cards[rank].secret);
            pump(&answer, &stream, &mut [], &stream, left)?;
            streams[rank] = Some(stream);
        }
    }
    Ok(())
}

fn meet(me: usize, doors: &Doors, cards: &[Card]) -> io::Result<Vec<Option<Connection>>> {
    let until = Instant::now() + MEETING;
    let mut streams: Vec<Option<Connection>> = cards.iter().map(|_| None).collect();
    for (rank, card) in cards.iter().enumerate().take(me) {
        streams[rank] = Some(call(me, &doors.card, rank, card, until)?);
    }
    receive(me, doors, cards, &mut streams, until)?;
    Ok(streams)
}

/// Joins the ranks of `comm` by sockets. Collective; all get `Ok`, or all get `Err`.
pub fn connect(comm: &dyn Comm) -> Result<Arc<dyn Link>> {
    let me = comm.rank();
    let doors = Doors::open();
    let own = doors.as_ref().map(|doors| doors.card.to_bytes()).unwrap_or_default();
    let cards = comm.all_gather(&own)?;
    let cards: Option<Vec<Card>> = cards.iter().map(|bytes| Card::from_bytes(bytes)).collect();
    let outcome = doors.and_then(|doors| {
        let cards = cards.ok_or_else(|| io::Error::other("another rank has no socket"))?;
        meet(me, &doors, &cards)
    });
    let mut failed = [i64::from(outcome.is_err())];
    comm.all_max(&mut failed)?;
    match outcome {
        Ok(streams) if failed[0] == 0 => Ok(Arc::new(Sockets(Mutex::new(streams)))),
        Ok(_) => Err(Error::Remote("another rank could not connect its sockets".to_string())),
        Err(error) => Err(Error::Remote(format!("no connection by sockets: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;

    use super::*;
    use crate::comm::mesh::Mesh;
    use crate::comm::threads::run;

    fn join(comm: &dyn Comm) -> Mesh {
        Mesh::new(connect(comm).unwrap(), comm.rank(), comm.size())
    }

    #[test]
    fn joined_ranks_do_all_that_ranks_do() {
        run(5, |comm| {
            let (me, group) = (comm.rank(), join(&*comm));
            let mut words = [me as i64, -(me as i64)];
            group.all_max(&mut words).unwrap();
            assert_eq!(words, [4, 0]);
            let all = group.all_gather(&vec![me as u8; me]).unwrap();
            assert_eq!(all, (0..5).map(|rank| vec![rank as u8; rank]).collect::<Vec<_>>());
            // More than a socket holds, in a circle.
            let (out, mut into) = (vec![me as u8; 3 << 20], vec![0; 3 << 20]);
            group.exchange(&out, (me + 1) % 5, &mut into, (me + 4) % 5).unwrap();
            assert_eq!(into, vec![((me + 4) % 5) as u8; 3 << 20]);
            let mut word = vec![me as u8];
            group.broadcast(&mut word, 3).unwrap();
            assert_eq!(word, [3]);
            let sparse = group.sparse_exchange(vec![((me + 2) % 5, vec![me as u8])]).unwrap();
            assert_eq!(sparse, [((me + 3) % 5, vec![((me + 3) % 5) as u8])]);
            let part = group.split((me % 2) as i64, -(me as i64)).unwrap().unwrap();
            assert_eq!((part.size(), part.rank()), (3 - me % 2, (4 - me) / 2));
            assert!(group.split(-1, 0).unwrap().is_none());
        });
    }

    #[test]
    fn who_waits_for_one_that_is_gone_hears_of_it() {
        run(2, |comm| {
            let group = join(&*comm);
            if comm.rank() == 0 {
                let error = group.receive(1).unwrap_err();
                assert!(matches!(error, Error::Comm(_)), "{error}");
                assert!(group.send(b"more", 1).is_err(), "once failed, always failed");
            }
        });
    }

    #[test]
    fn a_stranger_is_not_let_in() {
        run(2, |comm| {
            let doors = Doors::open().unwrap();
            let all = comm.all_gather(&doors.card.to_bytes()).unwrap();
            let cards: Vec<_> = all.iter().map(|card| Card::from_bytes(card).unwrap()).collect();
            if comm.rank() == 1 {
                // It knows the name, and not the secret; then one who says nothing.
                let wrong = Card { secret: [0, 0], ..cards[0].clone() };
                let until = Instant::now() + Duration::from_millis(50);
                assert!(call(1, &doors.card, 0, &wrong, until).is_err());
                let name = UnixAddr::from_abstract_name(&cards[0].name).unwrap();
                drop(UnixStream::connect_addr(&name).unwrap());
            }
            assert!(meet(comm.rank(), &doors, &cards).is_ok());
        });
    }

    #[test]
    fn who_comes_from_another_user_keeps_nobody_out() {
        if user_id() != 0 {
            return; // nobody else can be made to come
        }
        run(2, |comm| {
            let doors = Doors::open().unwrap();
            let all = comm.all_gather(&doors.card.to_bytes()).unwrap();
            let cards: Vec<_> = all.iter().map(|card| Card::from_bytes(card).unwrap()).collect();
            if comm.rank() == 1 {
                let code = "import socket, sys; one = socket.socket(socket.AF_UNIX); \
                            one.connect(chr(0) + sys.argv[1])";
                let mut other = std::process::Command::new("python3");
                let other = other.uid(65534).current_dir("/").args(["-c", code, &cards[0].name]);
                assert!(other.status().unwrap().success());
            }
            assert!(meet(comm.rank(), &doors, &cards).is_ok());
        });
    }

    #[test]
    fn a_card_survives_the_way_and_a_damaged_one_is_refused() {
        let card = Doors::open().unwrap().card;
        let bytes = card.to_bytes();
        assert_eq!(Card::from_bytes(&bytes), Some(card));
        assert!((0..bytes.len()).all(|length| Card::from_bytes(&bytes[..length]).is_none()));
    }
}
