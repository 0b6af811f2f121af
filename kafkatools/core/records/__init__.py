"""Record batches of every message format. The import of any module here first chooses compiled or plain kernels."""

from kafkatools.core.records import _choose_kernel as _choose_kernel
