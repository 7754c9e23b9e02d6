"""The cost model: trained on measured runs, it ranks schedules that were not measured.

- ``cost_model``    XGBoost, while tuning, or a linear model where that is not installed
- ``tree_model``    the trained model read without XGBoost, for choices at compile time
- ``shipped``       the model and the samples that come with the package
- ``training``, ``quality``   what a model learns from, and how good it is
"""
