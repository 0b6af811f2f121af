"""Record batches. Importing any module of this package first chooses compiled or plain kernels."""

from kafkatools.core.records import _choose_kernel as _choose_kernel
