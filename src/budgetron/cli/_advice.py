"""What to do about errors in files, in terms of options of the command line."""

from __future__ import annotations

from budgetron.streams import Advice

__all__ = ["OPTIONS"]

# The advice of `budgetron.streams`, in terms of options instead of parameters
OPTIONS = {
    Advice.FILL_MISSING: "fill it in, or give --missing mean",
    Advice.DECIMAL: "give --decimal . or --decimal ,",
    Advice.DATE_ORDER: "give --date-order day or --date-order month",
    Advice.NO_HEADER: "if the file has no header, give --no-header",
    Advice.LIST_CLASSES: "give all labels with --classes",
    Advice.NAME_TARGET: "give --target",
    Advice.ZERO_BASED: "if they count from 0, give --zero-based",
    Advice.SET_FEATURES: "give --features",
    Advice.CONFIRM_FEATURES: "correct the line; if the index is right, give the number of features with "
    "--features",
    Advice.CATEGORICAL: "if the column holds categories, give its name with --categorical",
    Advice.IGNORE_COLUMN: "unless it is the target, give its name with --ignore",
    Advice.TABLE_ONLY: "--target, --categorical, --numeric, --keep and --ignore are for tables",
    Advice.LIBSVM_ONLY: "--features and --zero-based are for LIBSVM files",
    Advice.LIBSVM_LINE: Advice.LIBSVM_LINE.value,
    Advice.SAME_COLUMNS: Advice.SAME_COLUMNS.value,
}
