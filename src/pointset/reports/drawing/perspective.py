"""A room with points in it, seen from a little above: three dimensions on paper."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pointset.reports.drawing.layout import Floats

_TURN, _TILT = np.radians(32.0), np.radians(20.0)  # of the camera about the vertical, and above the floor
_NARROWEST = 0.5  # of a room's sides, in terms of its longest
_DISTANCE = 7.0  # of the camera, where the room reaches from −1 to 1


class Seen(NamedTuple):
    """Points on the page."""

    page: Floats  # (n, 2)
    near: Floats  # (n,) from 0, the far end of the room, to 1, the near end


class Room(NamedTuple):
    """A box around points, centred at the origin and not larger than −1 to 1."""

    points: Floats  # (n, 3)
    half: Floats  # (3,) half its width, depth and height


def room_around(points: Floats) -> Room:
    """Points moved and scaled, the same in all directions, into a room that leaves a little space around them."""
    low, high = points.min(0), points.max(0)
    half = (high - low) / 2
    scale = 1.12 * float(half.max())
    return Room((points - (low + high) / 2) / scale, np.maximum(1.12 * half / scale, _NARROWEST))


def seen(points: Floats) -> Seen:
    """Project points (n, 3) of the room onto the page."""
    right = np.array([np.cos(_TURN), np.sin(_TURN), 0.0])
    towards = np.array([np.sin(_TURN) * np.cos(_TILT), -np.cos(_TURN) * np.cos(_TILT), np.sin(_TILT)])
    up = np.cross(towards, right)
    depth = points @ towards
    page = points @ np.stack([right, up], axis=1) * (_DISTANCE / (_DISTANCE - depth))[:, None]
    return Seen(page, np.clip((depth / np.sqrt(3) + 1) / 2, 0.0, 1.0))


def back_walls(half: Floats) -> list[Floats]:
    """The two walls behind the points and the floor, as polygons on the page, (4, 2) each."""
    corners = np.array([(-1, -1), (-1, 1), (1, 1), (1, -1)], dtype=np.float64)
    far = ((0, -1.0), (1, 1.0), (2, -1.0))  # the sides away from the camera
    return [seen(half * np.insert(corners, axis, side, axis=1)).page for axis, side in far]
