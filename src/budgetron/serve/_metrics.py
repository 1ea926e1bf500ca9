"""The state of the service as metrics of Prometheus."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from budgetron.serve._describe import health, memory_of
from budgetron.serve._service import Service

__all__ = ["CONTENT_TYPE", "metrics"]

# Of classifiers, and of regressors.
ERRORS = {
    "error": "Share of wrong predictions",
    "recent_error": "Share of wrong predictions of the last 1,000 labels",
    "balanced_accuracy": "Mean recall",
    "rmse": "Root of the mean squared error",
    "recent_rmse": "Root of the mean squared error of the last 1,000 labels",
    "mae": "Mean absolute error",
}
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def metrics(service: Service) -> bytes:
    """Return all metrics in the text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_ServiceCollector(service))
    return generate_latest(registry)


class _ServiceCollector(Collector):
    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterable[Metric]:
        service = self._service
        yield GaugeMetricFamily("budgetron_healthy", "1 if the log can be written", value=not health(service))
        yield GaugeMetricFamily("budgetron_log_bytes", "Bytes of the log on disk", value=service.log.nbytes)
        yield CounterMetricFamily(
            "budgetron_commits", "Transactions written to the log", value=service.writer.commits
        )
        entries = list(service.entries.values())

        def family(
            kind: type[CounterMetricFamily | GaugeMetricFamily],
            name: str,
            text: str,
            values: list[float | None],
        ) -> Metric:
            metric = kind(name, text, labels=["model"])
            for entry, value in zip(entries, values, strict=True):
                if value is not None:
                    metric.add_metric([entry.name], value)
            return metric

        counter, gauge = CounterMetricFamily, GaugeMetricFamily
        statistics = [entry.model.statistics for entry in entries]
        memory = [memory_of(entry) for entry in entries]
        waiting = [entry.waiting for entry in entries]
        yield family(
            counter, "budgetron_predicted_rows", "Rows predicted", [e.predicted.total for e in entries]
        )
        yield family(counter, "budgetron_learned_rows", "Rows learned", [e.learned.total for e in entries])
        yield family(counter, "budgetron_repeated_labels", "Labels sent again", [e.repeated for e in entries])
        yield family(
            counter, "budgetron_rejected_rows", "Rows not learned", [e.model.rejected for e in entries]
        )
        yield family(
            counter, "budgetron_expired_rows", "Rows too old for labels", [w.expired for w in waiting]
        )
        yield family(
            counter,
            "budgetron_displaced_rows",
            "Waiting rows dropped for newer",
            [w.displaced for w in waiting],
        )
        yield family(gauge, "budgetron_waiting_rows", "Rows that wait for labels", [w.rows for w in waiting])
        yield family(gauge, "budgetron_round", "Rows learned by the model", [e.model.rounds for e in entries])
        errors = [s.describe() for s in statistics]
        for error, text in ERRORS.items():
            yield family(gauge, f"budgetron_{error}", text, [e.get(error) for e in errors])
        yield family(
            gauge,
            "budgetron_label_delay_seconds",
            "Mean delay of recent labels",
            [s.delay for s in statistics],
        )
        for part in ("model", "waiting", "limit"):
            yield family(gauge, f"budgetron_{part}_bytes", f"Memory: {part}", [m[part] for m in memory])
