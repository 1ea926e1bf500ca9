"""The tests of `pytest -m quick`: a selection that runs in less than a minute, for use while working.

For each file: the test functions, and for each function the parts of parameter names that are selected; ""
selects all parameters. A file without functions is selected as a whole.
"""

ALL = ("",)

QUICK = {
    "test_units.py": {},
    "test_quick.py": {},
    # The reference comparison of every learner, on one kernel
    "test_reference.py": {"test_equals_reference": ("-rbf",)},
    "test_linear.py": {"test_equals_reference": ALL},
    # Cuts of the stream, and classes
    "test_cuts.py": {
        "test_play_and_progressive_fit": ("-rbf",),
        "test_any_cut": ("forgetron self-tuned", "cks", "projectron++]", "second order"),
    },
    "test_multiclass.py": {},
    # Invariants of the papers
    "test_invariants.py": {
        "test_never_more_supports_than_the_budget": ("-2]",),
        "test_forgetron_mistake_bound": ALL,
        "test_projectron_bounds": ALL,
        "test_perceptron_and_remove_oldest_bounds": ALL,
        "test_simplified_forgetron": ALL,
        "test_unit_vectors_defeat_every_budget": ALL,
    },
    # Model files
    "test_files.py": {
        "test_a_loaded_model_continues_exactly": ("-float64",),
        "test_every_class_is_covered": ALL,
        "test_protocol_1": ALL,
        "test_protocol_2": ALL,
        "test_protocol_3": ALL,
    },
    # Streams and the command line
    "test_streams.py": {
        "test_every_format_gives_what_pandas_gives": ("t.csv]", "t.jsonl", "t.parquet"),
        "test_frames_give_what_pandas_gives": ("pandas",),
        "test_cuts_change_nothing": ("7]",),
        "test_rows_before_scaling": ALL,
        "test_labels_keep_their_type": ALL,
        "test_encodings": ALL,
        "test_encoder_round_trip": ALL,
        "test_libsvm": ("a.svm",),
        "test_invalid_tables": ALL,
        "test_streams_import_no_learner": ALL,
    },
    "test_cli.py": {
        "test_the_budget_classifier_gets_unscaled_rows": ("options0",),
        "test_compare_budgets_as_json": ALL,
        "test_bad_arguments": ALL,
        "test_rows_that_a_model_cannot_predict": ALL,
        "test_advice_names_options_of_the_command_line": ALL,
    },
}


def is_quick(item):
    """Return whether a collected test belongs to the selection."""
    functions = QUICK.get(item.path.name)
    if functions is None:
        return False
    name, _, parameters = item.name.partition("[")
    return not functions or any(part in parameters for part in functions.get(name, ()))
