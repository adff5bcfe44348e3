"""Every family in one process: the embedded default on one machine.

Start it with `pressroom serve gateway` or `bentoml serve services.gateway:Gateway`. On Kubernetes each family is a
service of its own instead.
"""

from __future__ import annotations

from services.core.app import ServiceBase, pressroom_service
from services.detect import DetectFamily
from services.ehr import EhrFamily
from services.forecast import ForecastFamily
from services.generation.pool import EnginePool
from services.llm import LlmFamily
from services.onnx import OnnxFamily
from services.text_detect import TextDetectFamily
from services.watermark import WatermarkFamily

_ENGINES = EnginePool()  # a language model is in memory once, whichever families use it


@pressroom_service(
    ForecastFamily(),
    LlmFamily(_ENGINES),
    TextDetectFamily(_ENGINES),
    WatermarkFamily(_ENGINES),
    DetectFamily(),
    EhrFamily(),
    OnnxFamily(),
)
class Gateway(ServiceBase):
    """All families of verified artifacts behind one address."""
