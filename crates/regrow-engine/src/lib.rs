//! A shard: the tables of programs, images and bodies; spawn, wait and fall back.
