//! Channels of the ladder: one type, with a ring within this process or one that processes share.

use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use regrow_fiber::{ReceiveError, SendError, TrySendError};
use serde::de::{DeserializeOwned, Error as _};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

use super::exchange::{from_bytes, to_bytes};
use super::shared::{self, End, Failure};

/// Makes a channel within this process, with room for so many values: for steps, fibers and threads.
#[must_use]
pub fn channel<T: Serialize + DeserializeOwned + Send>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let (sender, receiver) = regrow_fiber::channel(capacity);
    (Sender(Way::Here(sender)), Receiver(Way::Here(receiver)))
}

/// Makes a channel between processes, with room for so many values, and for a megabyte in all.
///
/// Its ends go into the work of a [`Weight::Fork`](super::Weight::Fork), and are arguments of a function for [`Weight::Fresh`](super::Weight::Fresh). When all processes that have one side
/// have dropped it, ended, or were killed, the channel is closed.
///
/// # Errors
/// When there are no descriptors, or no memory.
pub fn shared_channel<T: Serialize + DeserializeOwned + Send>(
    capacity: usize,
) -> io::Result<(Sender<T>, Receiver<T>)> {
    let (sender, receiver) = shared::pair(capacity)?;
    Ok((Sender(Way::Shared(sender)), Receiver(Way::Shared(receiver))))
}

/// The side that sends.
pub struct Sender<T: Send>(Way<regrow_fiber::Sender<T>>);

/// The side that receives.
pub struct Receiver<T: Send>(Way<regrow_fiber::Receiver<T>>);

/// By which way values go.
enum Way<Here> {
    Here(Here),
    Shared(End),
}

/// Why a value was not sent or received.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ChannelError {
    /// Nobody has an end of the other side any more.
    #[error("the channel is closed")]
    Closed,
    /// There is no value, or no room, and the time is over.
    #[error("nothing within the time")]
    TimedOut,
    /// A value is larger than a channel between processes takes.
    #[error("a value of {bytes} bytes: at most {most} go from process to process")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The most.
        most: usize,
    },
    /// A value could not be put into bytes, or made of them.
    #[error("the value cannot be passed on: {0}")]
    Value(String),
    /// The kernel's word, or another process has damaged the channel.
    #[error(transparent)]
    Io(io::Error),
}

impl<T: Serialize + DeserializeOwned + Send> Sender<T> {
    /// Sends a value; waits while there is no room.
    ///
    /// # Errors
    /// A [`ChannelError`].
    pub fn send(&self, value: T) -> Result<(), ChannelError> {
        match &self.0 {
            Way::Here(sender) => sender.send(value).map_err(|SendError(_)| ChannelError::Closed),
            Way::Shared(end) => send_until(end, &value, None),
        }
    }

    /// Sends a value if there is room at once.
    ///
    /// # Errors
    /// A [`ChannelError`]; [`ChannelError::TimedOut`] when there is none.
    pub fn try_send(&self, value: T) -> Result<(), ChannelError> {
        match &self.0 {
            Way::Here(sender) => sender.try_send(value).map_err(|error| match error {
                TrySendError::Full(_) => ChannelError::TimedOut,
                TrySendError::Closed(_) => ChannelError::Closed,
            }),
            Way::Shared(end) => send_until(end, &value, Some(Instant::now())),
        }
    }
}

fn send_until<T: Serialize>(end: &End, value: &T, deadline: Option<Instant>) -> Result<(), ChannelError> {
    let bytes = to_bytes(value).map_err(ChannelError::Value)?;
    end.until(deadline, |end| end.try_send(&bytes)).map_err(|failure| failure.told(bytes.len()))
}

impl<T: Serialize + DeserializeOwned + Send> Receiver<T> {
    /// Receives a value; waits while there is none.
    ///
    /// # Errors
    /// A [`ChannelError`]; [`ChannelError::Closed`] when nobody sends any more, and all was received.
    pub fn receive(&self) -> Result<T, ChannelError> {
        match &self.0 {
            Way::Here(receiver) => receiver.receive().map_err(ChannelError::from),
            Way::Shared(end) => receive_until(end, None),
        }
    }

    /// The same, for so long.
    ///
    /// # Errors
    /// As [`Receiver::receive`]; [`ChannelError::TimedOut`] when the time is over.
    pub fn receive_within(&self, timeout: Duration) -> Result<T, ChannelError> {
        match &self.0 {
            Way::Here(receiver) => receiver.receive_within(timeout).map_err(ChannelError::from),
            Way::Shared(end) => receive_until(end, Instant::now().checked_add(timeout)),
        }
    }

    /// All values until the channel is closed.
    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        std::iter::from_fn(|| self.receive().ok())
    }
}

fn receive_until<T: DeserializeOwned>(end: &End, deadline: Option<Instant>) -> Result<T, ChannelError> {
    let bytes = end.until(deadline, End::try_receive).map_err(|failure| failure.told(0))?;
    from_bytes(&bytes).map_err(ChannelError::Value)
}

impl Failure {
    fn told(self, bytes: usize) -> ChannelError {
        match self {
            Self::Closed => ChannelError::Closed,
            Self::NotNow => ChannelError::TimedOut,
            Self::TooLarge(most) => ChannelError::TooLarge { bytes, most },
            Self::Io(error) => ChannelError::Io(error),
        }
    }
}

impl From<ReceiveError> for ChannelError {
    fn from(error: ReceiveError) -> Self {
        match error {
            ReceiveError::Empty => Self::TimedOut,
            ReceiveError::Closed => Self::Closed,
        }
    }
}

impl<Here> Way<Here> {
    /// Another end of the same side.
    ///
    /// # Panics
    /// When this process has no more descriptors.
    fn again(&self, here: impl FnOnce(&Here) -> Here) -> Self {
        match self {
            Self::Here(end) => Self::Here(here(end)),
            Self::Shared(end) => {
                Self::Shared(end.again().expect("a descriptor for a further end of a channel"))
            }
        }
    }

    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self::Shared(end) = self else {
            return Err(S::Error::custom(
                "a channel within this process: shared_channel makes one between processes",
            ));
        };
        match end.hand_over() {
            Ok(Some(place)) => place.serialize(serializer),
            Ok(None) => Err(S::Error::custom("an end of a channel goes to a process as an argument alone")),
            Err(error) => Err(S::Error::custom(error)),
        }
    }

    fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let place = u32::deserialize(deserializer)?;
        End::taken(place).map(Self::Shared).map_err(D::Error::custom)
    }
}

impl<T: Send> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self(self.0.again(Clone::clone))
    }
}

impl<T: Send> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        Self(self.0.again(Clone::clone))
    }
}

impl<T: Send> Serialize for Sender<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<T: Send> Serialize for Receiver<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, T: Send> Deserialize<'de> for Sender<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Way::deserialize(deserializer).map(Self)
    }
}

impl<'de, T: Send> Deserialize<'de> for Receiver<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Way::deserialize(deserializer).map(Self)
    }
}

impl<T: Send> fmt::Debug for Sender<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Sender")
    }
}

impl<T: Send> fmt::Debug for Receiver<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Receiver")
    }
}
