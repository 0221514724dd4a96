//! The wire types between the engine and the agent inside a body.
