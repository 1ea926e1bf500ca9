"""What to do about errors in files, in terms of options of the command line."""

from __future__ import annotations

from budgetron.streams import Advice

__all__ = ["MODEL_ADVICE", "OPTIONS"]

# The advice of `budgetron.streams`, in terms of options instead of parameters
OPTIONS = {
    Advice.FILL_MISSING: "fill it in, or give --missing mean",
    Advice.DECIMAL: "give --decimal . or --decimal ,",
    Advice.DATE_ORDER: "give --date-order day or --date-order month",
    Advice.NO_HEADER: "if the file has no header, give --no-header",
    Advice.LIST_CLASSES: "give all labels with --classes",
    Advice.CORRECT_TARGET: "correct it; if the targets are classes, give --task classification",
    Advice.NAME_TARGET: "give --target",
    Advice.ZERO_BASED: "if they count from 0, give --zero-based",
    Advice.SET_FEATURES: "give --features",
    Advice.CONFIRM_FEATURES: "correct the line; if the index is right, give the number of features with "
    "--features",
    Advice.CATEGORICAL: "if the column holds categories, give its name with --categorical; if the text "
    "means a missing value, give it with --na-values",
    Advice.IGNORE_COLUMN: "unless it is the target, give its name with --ignore",
    Advice.TABLE_ONLY: "--target, --categorical, --numeric, --keep and --ignore are for tables",
    Advice.LIBSVM_ONLY: "--features and --zero-based are for LIBSVM files",
    Advice.LIBSVM_LINE: Advice.LIBSVM_LINE.value,
    Advice.SAME_COLUMNS: Advice.SAME_COLUMNS.value,
}

# The same for rows that are read by a saved model: it determines what is an option otherwise.
MODEL_ADVICE = OPTIONS | {
    Advice.LIST_CLASSES: "the model does not have this class",
    Advice.CORRECT_TARGET: "correct it; the model predicts numbers",
    Advice.ZERO_BASED: "the model learned rows whose indices count from 1",
    Advice.SET_FEATURES: "the model does not have this feature; remove it",
    Advice.CATEGORICAL: "write values as in the rows that the model learned",
    Advice.DECIMAL: "write numbers as in the rows that the model learned",
    Advice.DATE_ORDER: "write dates as in the rows that the model learned",
    Advice.IGNORE_COLUMN: "give the column in the form that the model learned",
    Advice.TABLE_ONLY: "the model learned a table; give rows with the same columns",
    Advice.LIBSVM_ONLY: "the model learned LIBSVM rows; give rows in this format",
    Advice.LIBSVM_LINE: f"the model learned LIBSVM rows, in which {Advice.LIBSVM_LINE.value}",
    Advice.SAME_COLUMNS: "give the columns that the model learned",
}
