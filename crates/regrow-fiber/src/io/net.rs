//! Sockets: what connects, and what accepts.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{SocketAddr as UnixAddress, UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::addr::SocketAddrArg;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use super::wrapper::Async;
use crate::runtime::sleep;

/// How long to wait before a Unix socket whose queue is full is asked again: the kernel tells of no room there.
const PATIENCE: Duration = Duration::from_millis(1);

/// A socket that does not block.
fn socket(family: AddressFamily) -> io::Result<OwnedFd> {
    Ok(socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?)
}

/// Begins a connection, and waits until there is one.
fn connected<T: AsFd>(
    socket: Async<T>,
    address: &impl SocketAddrArg,
    deadline: Option<Instant>,
) -> io::Result<Async<T>> {
    loop {
        match connect(socket.get_ref(), address) {
            Ok(()) => return Ok(socket),
            Err(Errno::INPROGRESS) => break,
            Err(Errno::AGAIN) if deadline.is_none_or(|deadline| Instant::now() < deadline) => sleep(PATIENCE),
            Err(Errno::AGAIN) => return Err(io::ErrorKind::TimedOut.into()),
            Err(error) => return Err(error.into()),
        }
    }
    socket.writable(deadline)?;
    rustix::net::sockopt::socket_error(socket.get_ref())??;
    Ok(socket)
}

impl Async<TcpStream> {
    /// Connects to an address.
    ///
    /// # Errors
    /// The kernel's.
    pub fn connect(address: impl Into<SocketAddr>) -> io::Result<Self> {
        Self::connect_until(address.into(), None)
    }

    /// The same, within so long.
    ///
    /// # Errors
    /// The kernel's; [`TimedOut`](io::ErrorKind::TimedOut) when the time is over.
    pub fn connect_within(address: impl Into<SocketAddr>, timeout: Duration) -> io::Result<Self> {
        Self::connect_until(address.into(), Instant::now().checked_add(timeout))
    }

    fn connect_until(address: SocketAddr, deadline: Option<Instant>) -> io::Result<Self> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let stream = TcpStream::from(socket(family)?);
        connected(Self::of_non_blocking(stream), &address, deadline)
    }
}

impl Async<TcpListener> {
    /// Listens at an address.
    ///
    /// # Errors
    /// The kernel's.
    pub fn bind(address: impl Into<SocketAddr>) -> io::Result<Self> {
        Self::new(TcpListener::bind(address.into())?)
    }

    /// Waits for a connection: the connection, and who has made it.
    ///
    /// # Errors
    /// The kernel's; as [`Async::read_with`].
    pub fn accept(&self) -> io::Result<(Async<TcpStream>, SocketAddr)> {
        let (stream, address) = self.read_with(TcpListener::accept)?;
        Ok((Async::new(stream)?, address))
    }

    /// All connections, without end.
    pub fn incoming(&self) -> impl Iterator<Item = io::Result<Async<TcpStream>>> + '_ {
        std::iter::repeat_with(|| self.accept().map(|(stream, _)| stream))
    }
}

impl Async<UdpSocket> {
    /// A socket with an address.
    ///
    /// # Errors
    /// The kernel's.
    pub fn bind(address: impl Into<SocketAddr>) -> io::Result<Self> {
        Self::new(UdpSocket::bind(address.into())?)
    }

    /// Waits for a message: its length, and who has sent it.
    ///
    /// # Errors
    /// The kernel's; as [`Async::read_with`].
    pub fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.read_with(|socket| socket.recv_from(buffer))
    }

    /// Sends a message to an address; how much of it.
    ///
    /// # Errors
    /// The kernel's; as [`Async::write_with`].
    pub fn send_to(&self, message: &[u8], address: impl Into<SocketAddr>) -> io::Result<usize> {
        let address = address.into();
        self.write_with(|socket| socket.send_to(message, address))
    }
}

impl Async<UnixStream> {
    /// Connects to a socket of the file system.
    ///
    /// # Errors
    /// The kernel's.
    pub fn connect(path: impl AsRef<Path>) -> io::Result<Self> {
        let stream = UnixStream::from(socket(AddressFamily::UNIX)?);
        connected(Self::of_non_blocking(stream), &SocketAddrUnix::new(path.as_ref())?, None)
    }

    /// Two that are connected.
    ///
    /// # Errors
    /// The kernel's.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, other) = UnixStream::pair()?;
        Ok((Self::new(one)?, Self::new(other)?))
    }
}

impl Async<UnixListener> {
    /// Listens at a path, where nothing is yet.
    ///
    /// # Errors
    /// The kernel's.
    pub fn bind(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::new(UnixListener::bind(path)?)
    }

    /// Waits for a connection: the connection, and who has made it.
    ///
    /// # Errors
    /// The kernel's; as [`Async::read_with`].
    pub fn accept(&self) -> io::Result<(Async<UnixStream>, UnixAddress)> {
        let (stream, address) = self.read_with(UnixListener::accept)?;
        Ok((Async::new(stream)?, address))
    }

    /// All connections, without end.
    pub fn incoming(&self) -> impl Iterator<Item = io::Result<Async<UnixStream>>> + '_ {
        std::iter::repeat_with(|| self.accept().map(|(stream, _)| stream))
    }
}
