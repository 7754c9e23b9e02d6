"""Compares models of tables, trained by scikit-learn, XGBoost and LightGBM, with their libraries.

::

    python -m tools.table_models [NAME ...]

Each model is trained on random data, exported to ONNX, compiled, and run on rows beside the library
that trained it; NAME chooses by a part of the name. One line for each that is not ``equal``: its
results are ``wrong``, or not the library's in ONNX Runtime either (``exporter``), the importer
``refused`` it, or there is no exporter for it (``untried``). Exits with 1 if one is wrong.
It needs scikit-learn, skl2onnx, xgboost, lightgbm, onnxmltools and onnxruntime.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import lightgbm
import loopwright as lw
import numpy as np
import onnxruntime
import sklearn.cluster as cluster
import sklearn.discriminant_analysis as discriminant
import sklearn.ensemble as ensemble
import sklearn.linear_model as linear
import sklearn.naive_bayes as bayes
import sklearn.neighbors as neighbors
import sklearn.neural_network as neural
import sklearn.preprocessing as preprocessing
import sklearn.svm as svm
import sklearn.tree as tree
import xgboost
from onnxmltools import convert_lightgbm, convert_xgboost
from onnxmltools.convert.common.data_types import FloatTensorType
from skl2onnx import to_onnx
from sklearn.datasets import make_classification, make_regression
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_selection import VarianceThreshold
from sklearn.impute import SimpleImputer
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline

Data: TypeAlias = tuple[np.ndarray, np.ndarray]

Export: TypeAlias = Callable[[Any, np.ndarray], Any]

COMPARED_ROWS = 100
"""Rows that results are compared for."""

TABLE_TOLERANCE = 2e-4
"""The difference of float32 results over the greatest one, from which on a model is wrong."""


def _data() -> dict[str, Data]:
    x, y = make_regression(800, 10, n_informative=6, noise=0.5, random_state=0)
    numbers = x.astype(np.float32), (y / np.abs(y).max()).astype(np.float32)
    missing = numbers[0].copy()
    missing[np.random.default_rng(0).random(x.shape) < 0.1] = np.nan
    data = {"numbers": numbers, "missing": (missing, numbers[1])}
    for classes in (2, 3):
        x, y = make_classification(
            800, 10, n_informative=6, n_classes=classes, random_state=classes
        )
        data[f"{classes} classes"] = x.astype(np.float32), y
    return data


def _regressors() -> Iterator[Any]:
    yield from (linear.LinearRegression(), linear.Ridge(), linear.Lasso(0.01))
    yield from (linear.ElasticNet(0.01), linear.BayesianRidge(), linear.HuberRegressor())
    yield from (linear.SGDRegressor(), linear.RANSACRegressor(random_state=0), svm.LinearSVR())
    yield from (svm.SVR(kernel=kind) for kind in ("rbf", "linear", "poly"))
    yield from (svm.NuSVR(), tree.DecisionTreeRegressor(), tree.ExtraTreeRegressor())
    yield from (ensemble.RandomForestRegressor(20), ensemble.ExtraTreesRegressor(20))
    yield from (ensemble.GradientBoostingRegressor(n_estimators=30), ensemble.BaggingRegressor())
    yield ensemble.HistGradientBoostingRegressor(max_iter=30)
    yield from (ensemble.AdaBoostRegressor(n_estimators=5), neighbors.KNeighborsRegressor())
    yield neural.MLPRegressor(max_iter=50)
    yield make_pipeline(preprocessing.StandardScaler(), linear.Ridge())
    yield make_pipeline(preprocessing.MinMaxScaler(), svm.SVR())
    yield make_pipeline(preprocessing.PolynomialFeatures(2), linear.Ridge())
    yield make_pipeline(PCA(4), linear.LinearRegression())
    yield ensemble.VotingRegressor([("a", linear.Ridge()), ("b", tree.DecisionTreeRegressor())])


def _classifiers() -> Iterator[Any]:
    yield from (linear.LogisticRegression(), linear.Perceptron(), linear.RidgeClassifier())
    yield from (linear.SGDClassifier(), svm.LinearSVC(), svm.NuSVC())
    yield from (svm.SVC(kernel=kind) for kind in ("rbf", "linear", "poly", "sigmoid"))
    yield svm.SVC(probability=True)
    yield from (tree.DecisionTreeClassifier(), tree.ExtraTreeClassifier())
    yield from (ensemble.RandomForestClassifier(20), ensemble.ExtraTreesClassifier(20))
    yield ensemble.GradientBoostingClassifier(n_estimators=20)
    yield ensemble.HistGradientBoostingClassifier(max_iter=20)
    yield from (ensemble.AdaBoostClassifier(n_estimators=5), ensemble.BaggingClassifier())
    yield from (neighbors.KNeighborsClassifier(), neural.MLPClassifier(max_iter=50))
    yield from (bayes.GaussianNB(), bayes.BernoulliNB())
    yield discriminant.LinearDiscriminantAnalysis()
    yield discriminant.QuadraticDiscriminantAnalysis(reg_param=0.1)
    yield make_pipeline(preprocessing.Normalizer(), linear.LogisticRegression())
    yield make_pipeline(preprocessing.Binarizer(), bayes.BernoulliNB())
    yield OneVsRestClassifier(linear.LogisticRegression())


def _transformers() -> Iterator[Any]:
    yield from (preprocessing.StandardScaler(), preprocessing.RobustScaler())
    yield from (preprocessing.MaxAbsScaler(), preprocessing.PowerTransformer())
    yield from (preprocessing.Normalizer(norm) for norm in ("l1", "l2"))
    yield from (preprocessing.Binarizer(threshold=0.2), preprocessing.PolynomialFeatures(2))
    yield from (PCA(3), TruncatedSVD(3), SimpleImputer(), VarianceThreshold())
    yield from (kind(4, n_init=2) for kind in (cluster.KMeans, cluster.MiniBatchKMeans))
    for encode in ("onehot-dense", "ordinal"):
        yield preprocessing.KBinsDiscretizer(4, encode=encode)


def _models() -> Iterator[tuple[Any, str, Export]]:
    """Yields models, the name of their data, and what exports them."""
    for each in (*_regressors(), *_transformers()):
        yield each, "numbers", _by_sklearn
    for each in (
        ensemble.HistGradientBoostingRegressor(max_iter=20),
        make_pipeline(SimpleImputer(), linear.Ridge()),
    ):
        yield each, "missing", _by_sklearn
    for each in _classifiers():
        for data in ("2 classes", "3 classes"):
            yield each, data, _by_sklearn
    for data in ("numbers", "missing", "2 classes", "3 classes"):
        kind = "Regressor" if data in ("numbers", "missing") else "Classifier"
        for options in ({"max_depth": 6}, {"max_depth": 3}, {"max_depth": 9}):
            yield getattr(xgboost, f"XGB{kind}")(n_estimators=30, **options), data, _by_xgboost
        forest = {"boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": 0.7}
        for options in ({}, {"num_leaves": 100}, {"boosting_type": "dart"}, forest):
            model = getattr(lightgbm, f"LGBM{kind}")(n_estimators=30, verbose=-1, **options)
            yield model, data, _by_lightgbm


def _by_sklearn(model: Any, x: np.ndarray) -> Any:
    try:
        options = {"zipmap": False} if hasattr(model, "predict_proba") else None
        return to_onnx(model, x[:1], options=options)
    except Exception:  # the option is of some exporters
        return to_onnx(model, x[:1])


def _by_xgboost(model: Any, x: np.ndarray) -> Any:
    types = [("input", FloatTensorType([None, x.shape[1]]))]
    return convert_xgboost(model, initial_types=types, target_opset=15)


def _by_lightgbm(model: Any, x: np.ndarray) -> Any:
    types = [("input", FloatTensorType([None, x.shape[1]]))]
    return convert_lightgbm(model, initial_types=types, target_opset=15, zipmap=False)


def _outcome(model: Any, data: Data, export: Export) -> tuple[str, str]:
    x, y = data
    rows = x[:COMPARED_ROWS]
    try:
        model.fit(x, y)
        expected = [getattr(model, "predict", getattr(model, "transform", None))(rows)]
        if hasattr(model, "predict_proba"):
            expected.append(model.predict_proba(rows))
        proto = export(model, x)
    except Exception as error:  # of the libraries
        return "untried", f"{type(error).__name__}: {error}"
    name = proto.graph.input[0].name
    try:
        results = lw.from_onnx(proto, shapes={name: rows.shape}, threads=1).run({name: rows})
    except lw.UnsupportedError as error:
        return "refused", str(error)
    values = list(results.values())
    apart = _apart(values, expected)
    if apart < TABLE_TOLERANCE:
        return "equal", ""
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    same = _apart(values, session.run(None, {name: rows})) < TABLE_TOLERANCE
    return "exporter" if same else "wrong", f"a difference of {apart:.2g}"


def _apart(results: Sequence[Any], expected: Sequence[Any]) -> float:
    """Returns the greatest difference over the greatest number; inf for nan and other sizes."""
    most = 0.0
    for result, other in zip(results, expected):
        exact = np.asarray(other, np.float64)
        if exact.size != result.size:
            return np.inf
        exact = exact.reshape(result.shape)
        apart = np.max(np.abs(result - exact)) / max(1, np.max(np.abs(exact)))
        most = max(most, np.inf if np.isnan(apart) else float(apart))
    return most


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="parts of names")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    counts, data = Counter[str](), _data()
    for model, of, export in _models():
        name = f"{' '.join(str(model).split())[:60]}, {of}"
        if options.names and not any(part in name for part in options.names):
            continue
        kind, why = _outcome(model, data[of], export)
        counts[kind] += 1
        if kind != "equal":
            print(f"{kind:8} {name}: {' '.join(why.split())[:160]}", flush=True)
    print(", ".join(f"{count} {kind}" for kind, count in counts.most_common()))
    return int(counts["wrong"] > 0)


if __name__ == "__main__":
    sys.exit(main())
