"""Knobs that several algorithms have in common."""

from __future__ import annotations

from spectui.core.settings import Knob

NUM_STEPS = Knob(
    "num_steps",
    "int",
    "steps",
    "How many times the draft runs before each verify step, so how far ahead it guesses.",
    minimum=1,
    maximum=64,
)
EAGLE_TOPK = Knob(
    "eagle_topk",
    "int",
    "topk",
    "Branches kept at each draft step. 1 is a chain; more is a tree.",
    minimum=1,
    maximum=64,
)
NUM_DRAFT_TOKENS = Knob(
    "num_draft_tokens",
    "int",
    "draft tokens",
    "Width of the verify step: how many tokens the target checks at once, the last committed one included.",
    minimum=1,
    maximum=1024,
    unit="tokens",
)
DRAFT_MODEL_PATH = Knob(
    "draft_model_path",
    "path",
    "draft model",
    "Folder or repository of the draft model.",
)
DRAFT_WINDOW_SIZE = Knob(
    "draft_window_size",
    "int",
    "draft window",
    "How many of the last tokens the draft attends to.",
    minimum=1,
    unit="tokens",
    since=(0, 5, 12),
    off_when_unset=True,
)
THRESHOLDS = (
    Knob(
        "accept_threshold_single",
        "float",
        "accept threshold, single token",
        "A draft token is accepted when the target gives it at least this probability. Below 1 the output changes.",
        minimum=0,
        maximum=1,
        default=1.0,
        hot_since=(0, 4, 9),
    ),
    Knob(
        "accept_threshold_acc",
        "float",
        "accept threshold, accumulated",
        "Loosens acceptance by the accumulated probability. Below 1 the output changes.",
        minimum=0,
        maximum=1,
        default=1.0,
        hot_since=(0, 4, 9),
    ),
)
ADAPTIVE = (
    Knob(
        "adaptive",
        "flag",
        "adaptive steps",
        "Lets the server choose the steps by how much was accepted. Graphs for every candidate are captured at start.",
        since=(0, 5, 12),
    ),
    Knob(
        "adaptive_config",
        "path",
        "adaptive config",
        "JSON file with the candidate steps.",
        since=(0, 5, 12),
    ),
)
REJECTION_SAMPLING = Knob(
    "rejection_sampling",
    "flag",
    "rejection sampling",
    "Verifies sampled text by rejection sampling instead of target-only sampling.",
    since=(0, 5, 15),
)
