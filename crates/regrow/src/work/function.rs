//! Functions that fresh processes can run, and calls of them.

use std::fmt;

use linkme::distributed_slice;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::exchange::{from_bytes, to_bytes};

/// All functions of the program that `#[regrow::fresh]` marks.
#[distributed_slice]
pub static FUNCTIONS: [Function];

/// A function that a fresh process can run.
#[derive(Debug)]
pub struct Function {
    /// Its path, with its types.
    pub name: &'static str,
    /// Calls it: arguments and result in bytes.
    pub run: fn(&[u8]) -> Result<Vec<u8>, String>,
}

/// A call of a function that `#[regrow::fresh]` marks: see [`Work`](super::Work).
pub struct Call<T> {
    function: &'static Function,
    arguments: Box<dyn Arguments<T> + Send>,
}

/// The arguments of a call, of which only the call knows the type.
trait Arguments<T> {
    fn to_bytes(&self) -> Result<Vec<u8>, String>;
    fn call(self: Box<Self>) -> T;
}

struct Of<A, T> {
    arguments: A,
    function: fn(A) -> T,
}

impl<A: Serialize, T> Arguments<T> for Of<A, T> {
    fn to_bytes(&self) -> Result<Vec<u8>, String> {
        to_bytes(&self.arguments)
    }

    fn call(self: Box<Self>) -> T {
        (self.function)(self.arguments)
    }
}

impl<T> Call<T> {
    /// A call with these arguments.
    pub(crate) fn new<A: Serialize + Send + 'static>(
        function: &'static Function,
        arguments: A,
        run: fn(A) -> T,
    ) -> Self
    where
        T: 'static,
    {
        Self { function, arguments: Box::new(Of { arguments, function: run }) }
    }

    /// The number that the function is known by in other processes of this program.
    pub(crate) fn function(&self) -> u64 {
        number_of(self.function)
    }

    /// The path of the function, with its types.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.function.name
    }

    /// The arguments, in bytes.
    pub(crate) fn arguments(&self) -> Result<Vec<u8>, String> {
        self.arguments.to_bytes()
    }

    /// Calls the function here and now.
    #[must_use]
    pub fn call(self) -> T {
        self.arguments.call()
    }
}

impl<T> fmt::Debug for Call<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Call").field(&self.function.name).finish()
    }
}

/// The function of a number.
pub(crate) fn find(number: u64) -> Option<&'static Function> {
    FUNCTIONS.iter().find(|function| number_of(function) == number)
}

/// A function's name as a number (FNV-1a).
fn number_of(function: &Function) -> u64 {
    function
        .name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |number, byte| (number ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Calls a function with arguments in bytes.
pub(crate) fn run<A: DeserializeOwned, T: Serialize>(
    arguments: &[u8],
    function: fn(A) -> T,
) -> Result<Vec<u8>, String> {
    let arguments = from_bytes(arguments).map_err(|error| format!("its arguments: {error}"))?;
    to_bytes(&function(arguments)).map_err(|error| format!("its result: {error}"))
}
