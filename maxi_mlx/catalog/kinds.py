"""Tells what kind of model a folder holds, from its config, its file names and tensor names."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from maxi_mlx.core.models import ModelKind

# fmt: off
_SPEECH_TYPES = frozenset((
    "bark", "canary", "chatterbox", "csm", "dia", "encodec", "f5_tts", "hubert", "kokoro", "mimi",
    "moonshine", "moshi", "musicgen", "outetts", "parakeet", "qwen2_audio", "qwen3_asr",
    "qwen3_tts", "seamless_m4t", "sesame", "snac", "speech_to_text", "speecht5", "vits", "voxtral",
    "voxtral_realtime", "wav2vec2", "wav2vec2-bert", "whisper", "xcodec2",
))
ENCODER_TYPES = frozenset((
    "albert", "bert", "camembert", "clip", "deberta", "deberta-v2", "distilbert", "electra",
    "eurobert", "gte", "ibert", "jina_bert", "luke", "modernbert", "mpnet", "new", "nomic_bert",
    "roberta", "roformer", "siglip", "siglip2", "xlm-roberta", "xlm-roberta-xl", "xlm_roberta",
))
# Those of them, and their like, that mlx-embeddings and mlx-vlm compute as they were made.
SERVED_ENCODERS = frozenset((
    "bert", "camembert", "gemma3_text", "modernbert", "roberta", "xlm-roberta", "xlm_roberta",
))
# fmt: on
# Vision models whose images are read here. The language part of the first two isn't mlx-lm's by
# their own name, but by their text's.
SEEING_TYPES = frozenset(
    {
        "idefics3",
        "smolvlm",
        "gemma3",
        "gemma4",
        "mistral3",
        "qwen2_vl",
        "qwen2_5_vl",
        "qwen3_vl",
        "qwen3_vl_moe",
    }
    | {"qwen3_5", "qwen3_5_moe"}
)
LLAMAS_WITH_EYES = frozenset({"idefics3", "smolvlm"})
_IMAGE_SETTINGS = frozenset({"preprocessor_config.json", "processor_config.json"})
_SENTENCE_NAMES = frozenset({"modules.json", "config_sentence_transformers.json", "1_Pooling"})
_VISION_KEYS = ("vision_config", "img_processor", "mm_vision_tower", "vision_tower", "visual")
_VISION_TENSOR = re.compile(
    r"vision|visual|image|\bimg|multi_modal|mm_projector|patch_embed|audio_tower|embed_audio"
)
_EMBEDDING_NAME = re.compile(r"embed(?!ded)", re.IGNORECASE)


def architectures_of(config: Mapping[str, Any]) -> tuple[str, ...]:
    value = config.get("architectures")
    names = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return tuple(name for name in names if isinstance(name, str))


def model_type_of(config: Mapping[str, Any]) -> str | None:
    value = config.get("model_type")
    return value if isinstance(value, str) else None


def kind_of(
    config: Mapping[str, Any],
    *,
    name: str,
    names: Collection[str],
    tensors: Collection[str],
    is_supported: bool,
) -> ModelKind:
    """The kind of the model in a folder called ``name`` that holds files and folders ``names``.

    Some rerankers and embedding models are language models in all their files, and only the
    folder's name tells. ``is_supported``: mlx-lm has this model type.
    """
    architectures = " ".join(architectures_of(config))
    model_type = model_type_of(config)
    if _is_speech(config, model_type, architectures):
        return "speech"
    if "ForSequenceClassification" in architectures:
        return "reranker" if _num_labels(config) == 1 else "unknown"
    if "rerank" in name.lower():
        return "reranker"
    if (
        model_type in ENCODER_TYPES
        or "ForMaskedLM" in architectures
        or not _SENTENCE_NAMES.isdisjoint(names)
        or _EMBEDDING_NAME.search(name)
    ):
        return "embedding"
    if any(config.get(key) for key in _VISION_KEYS):
        # Conversions of the text part alone keep the config of the whole.
        is_stripped = tensors and not any(map(_VISION_TENSOR.search, tensors))
        return "language" if is_stripped else "vision"
    if is_supported or re.search(r"ForCausalLM|LMHeadModel", architectures):
        return "language"
    return "unknown"


def _is_speech(config: Mapping[str, Any], model_type: str | None, architectures: str) -> bool:
    return (
        model_type in _SPEECH_TYPES
        or "n_mels" in config
        or "n_audio_state" in config
        or str(config.get("target", "")).startswith("nemo.collections.asr")
        or re.search(r"Whisper|ForSpeechSeq2Seq|ForCTC", architectures) is not None
    )


def _num_labels(config: Mapping[str, Any]) -> int:
    labels = config.get("id2label")
    num_labels = len(labels) if isinstance(labels, dict) else config.get("num_labels", 1)
    return num_labels if isinstance(num_labels, int) else 1


def sees(kind: ModelKind, config: Mapping[str, Any], names: Collection[str]) -> bool:
    """Whether images are read with the model in a folder that holds these files: it has its eyes,
    and says how an image is brought to their size."""
    is_known = kind == "vision" and model_type_of(config) in SEEING_TYPES
    return is_known and not _IMAGE_SETTINGS.isdisjoint(names) and not _is_stretched(config)


def _is_stretched(config: Mapping[str, Any]) -> bool:
    """Whether positions were made over for longer texts, which isn't done within an image."""
    text = config.get("text_config")
    for part in (config, text if isinstance(text, dict) else {}):
        ropes = (part.get("rope_scaling"), part.get("rope_parameters"))
        for rope in ropes:
            if isinstance(rope, dict) and "mrope_section" in rope:
                kind = rope.get("type") or rope.get("rope_type") or "default"
                return kind not in ("default", "mrope", "linear")
    return False


def reads_pairs(architectures: tuple[str, ...]) -> bool:
    """Whether a reranker is a classifier of text pairs; others write their judgement."""
    return any("ForSequenceClassification" in name for name in architectures)
