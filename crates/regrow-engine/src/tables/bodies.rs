//! The table of bodies: which image each is of, and the body itself while nobody works on it.
//!
//! A body that is *lent* has a row and no body: somebody maps or gives back pages in it, outside of the shard's lock.

use std::collections::BTreeMap;

use crate::ids::{BodyId, ImageId};

/// The bodies of a shard, of type `B`, by image. An image has few.
#[derive(Debug)]
pub(crate) struct Bodies<B> {
    rows: BTreeMap<ImageId, Vec<BodyRow<B>>>,
    images: BTreeMap<BodyId, ImageId>,
}

#[derive(Debug)]
struct BodyRow<B> {
    id: BodyId,
    /// None while it is lent.
    body: Option<Box<B>>,
}

impl<B> Default for Bodies<B> {
    fn default() -> Self {
        Bodies { rows: BTreeMap::new(), images: BTreeMap::new() }
    }
}

impl<B> Bodies<B> {
    /// Adds a body of an image. An id that stands in the table is given up first.
    pub(crate) fn insert(&mut self, id: BodyId, image: ImageId, body: Box<B>) {
        self.remove(id);
        self.images.insert(id, image);
        self.rows.entry(image).or_default().push(BodyRow { id, body: Some(body) });
    }

    /// Adds a body that somebody has already.
    pub(crate) fn insert_lent(&mut self, id: BodyId, image: ImageId) {
        self.remove(id);
        self.images.insert(id, image);
        self.rows.entry(image).or_default().push(BodyRow { id, body: None });
    }

    /// Takes a row out. Gives the body, unless it is lent.
    pub(crate) fn remove(&mut self, id: BodyId) -> Option<Box<B>> {
        let image = self.images.remove(&id)?;
        let rows = self.rows.get_mut(&image)?;
        let row = rows.remove(rows.iter().position(|row| row.id == id)?);
        if rows.is_empty() {
            self.rows.remove(&image);
        }
        row.body
    }

    /// Takes all rows of an image out. Gives the bodies that are not lent.
    pub(crate) fn remove_all_of(&mut self, image: ImageId) -> Vec<Box<B>> {
        let rows = self.rows.remove(&image).unwrap_or_default();
        for row in &rows {
            self.images.remove(&row.id);
        }
        rows.into_iter().filter_map(|row| row.body).collect()
    }

    /// Takes a body for work on it; its row stays.
    pub(crate) fn lend(&mut self, id: BodyId) -> Option<Box<B>> {
        self.row_mut(id)?.body.take()
    }

    /// Takes a lent body back. Gives it to the caller where its row is gone.
    pub(crate) fn give_back(&mut self, id: BodyId, body: Box<B>) -> Option<Box<B>> {
        match self.row_mut(id) {
            Some(row) => row.body.replace(body),
            None => Some(body),
        }
    }

    /// Keeps the bodies of an image for which `keep` says so, and drops the others. Lent ones stay.
    pub(crate) fn retain(&mut self, image: ImageId, mut keep: impl FnMut(&B) -> bool) {
        let Some(rows) = self.rows.get_mut(&image) else { return };
        let images = &mut self.images;
        rows.retain(|row| {
            let stays = row.body.as_deref().is_none_or(&mut keep);
            if !stays {
                images.remove(&row.id);
            }
            stays
        });
    }

    /// The image that a body is of, lent or not.
    pub(crate) fn image_of(&self, id: BodyId) -> Option<ImageId> {
        self.images.get(&id).copied()
    }

    /// A body that is not lent.
    pub(crate) fn get(&self, id: BodyId) -> Option<&B> {
        let rows = self.rows.get(self.images.get(&id)?)?;
        rows.iter().find(|row| row.id == id)?.body.as_deref()
    }

    /// A body that is not lent, to be changed.
    pub(crate) fn get_mut(&mut self, id: BodyId) -> Option<&mut B> {
        self.row_mut(id)?.body.as_deref_mut()
    }

    fn row_mut(&mut self, id: BodyId) -> Option<&mut BodyRow<B>> {
        let rows = self.rows.get_mut(self.images.get(&id)?)?;
        rows.iter_mut().find(|row| row.id == id)
    }

    /// The bodies of an image that are not lent, oldest first.
    pub(crate) fn of(&self, image: ImageId) -> impl Iterator<Item = (BodyId, &B)> {
        let rows = self.rows.get(&image).into_iter().flatten();
        rows.filter_map(|row| Some((row.id, row.body.as_deref()?)))
    }

    /// All bodies that are not lent, by image.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (BodyId, ImageId, &B)> {
        self.rows.keys().flat_map(|&image| self.of(image).map(move |(id, body)| (id, image, body)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: ImageId = ImageId::new(1);
    const TWO: ImageId = ImageId::new(2);

    fn table() -> Bodies<&'static str> {
        let mut bodies = Bodies::default();
        for (number, image, body) in [(1, ONE, "a"), (2, TWO, "b"), (3, ONE, "c")] {
            bodies.insert(BodyId::new(number), image, Box::new(body));
        }
        bodies
    }

    fn numbers(bodies: &Bodies<&'static str>, image: ImageId) -> Vec<&'static str> {
        bodies.of(image).map(|(_, body)| *body).collect()
    }

    #[test]
    fn a_body_is_found_by_its_id_and_by_its_image() {
        let bodies = table();
        assert_eq!((numbers(&bodies, ONE), numbers(&bodies, TWO)), (vec!["a", "c"], vec!["b"]));
        assert_eq!((bodies.get(BodyId::new(3)), bodies.image_of(BodyId::new(3))), (Some(&"c"), Some(ONE)));
        assert_eq!(bodies.get(BodyId::new(4)), None);
        assert_eq!(bodies.iter().count(), 3);
    }

    #[test]
    fn a_lent_body_has_a_row_and_is_not_found_until_it_comes_back() {
        let mut bodies = table();
        let id = BodyId::new(1);
        let lent = bodies.lend(id).expect("it is there");
        assert_eq!((bodies.image_of(id), bodies.get(id)), (Some(ONE), None));
        assert_eq!(bodies.lend(id), None);
        assert_eq!(numbers(&bodies, ONE), ["c"]);
        assert_eq!(bodies.give_back(id, lent), None);
        assert_eq!(numbers(&bodies, ONE), ["a", "c"]);
    }

    #[test]
    fn a_lent_body_whose_row_is_gone_is_the_callers() {
        let mut bodies = table();
        let lent = bodies.lend(BodyId::new(2)).expect("it is there");
        assert_eq!(bodies.remove(BodyId::new(2)), None);
        assert_eq!(bodies.give_back(BodyId::new(2), lent), Some(Box::new("b")));
        assert_eq!(bodies.image_of(BodyId::new(2)), None);
    }

    #[test]
    fn the_bodies_of_an_image_go_together() {
        let mut bodies = table();
        assert_eq!(bodies.remove_all_of(ONE).len(), 2);
        assert_eq!(bodies.remove_all_of(ONE).len(), 0);
        assert_eq!((bodies.image_of(BodyId::new(1)), bodies.iter().count()), (None, 1));
    }

    #[test]
    fn bodies_that_are_not_retained_have_no_row() {
        let mut bodies = table();
        bodies.retain(ONE, |body| *body == "c");
        assert_eq!(bodies.image_of(BodyId::new(1)), None);
        assert_eq!(numbers(&bodies, ONE), ["c"]);
    }
}
