"""Messages about columns: features, sources, labels, categories."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from tables import as_h5ad

from .cases import NOT_FINITE, Cases, parquet, text, written

case = Cases()


# -- columns -----------------------------------------------------------------------------------------------------------


@case("a.parquet: column 'x' occurs twice. Rename one of them.")
def parquet_with_a_name_twice():
    pq.write_table(pa.Table.from_arrays([pa.array([1.0]), pa.array([2.0])], names=["x", "x"]), "a.parquet")
    return "a.parquet"


@case("a.h5ad: variable 'g' occurs twice. Call adata.var_names_make_unique() first.")
def h5ad_with_a_name_twice():
    import anndata

    data = anndata.AnnData(np.ones((3, 2)), var=pd.DataFrame(index=["f", "g"]))
    data.write_h5ad("a.h5ad")
    import h5py

    with h5py.File("a.h5ad", "a") as file:
        index = file["var"]["_index"]  # since anndata 0.13 a group, with a mask of missing names
        (index["values"] if isinstance(index, h5py.Group) else index)[:] = ["g", "g"]
    return "a.h5ad"


@case("b.csv: lacks 'y'. All files must have the columns of a.csv.")
def files_of_which_one_lacks_a_column():
    return [text("a.csv", "x,y\n1,2\n"), text("b.csv", "x\n1\n")]


@case("b.csv: also has 'z'. All files must have the columns of a.csv.")
def files_of_which_one_has_more_columns():
    return [text("a.csv", "x,y\n1,2\n"), text("b.csv", "x,y,z\n1,2,3\n")]


@case("b.npy: lacks '7'. All files must have the columns of a.npy.")
def arrays_of_different_width():
    np.save("a.npy", np.ones((3, 8)))
    np.save("b.npy", np.ones((3, 7)))
    return ["a.npy", "b.npy"]


@case(
    "a.parquet: columns 'name', 'day' hold no numbers. Leave out what is no feature (drop=['name', 'day']), or "
    "one-hot code it (encode=['name'])."
)
def columns_of_text_and_dates():
    day = pa.array([1, 2], pa.date32())
    return parquet("a.parquet")({"x": [1.0, 2.0], "name": ["a", "b"], "day": day})


@case(
    "a.parquet: column 'list' does not hold numbers. Leave out what is no feature (drop=['list']), or one-hot code it "
    "(encode=['list'])."
)
def a_column_of_lists():
    return parquet("a.parquet")({"x": [1.0, 2.0], "list": [[1.0], [2.0, 3.0]]})


@case("a.csv: has no column 'batc'. Did you mean 'batch'?", source="batc")
def a_source_that_is_misspelt():
    return text("a.csv", "x,batch\n1,2\n")


@case("a.csv: has no column 'zzz'. It has 'x', 'y'.", drop=["zzz"])
def a_column_to_drop_that_is_not_there():
    return text("a.csv", "x,y\n1,2\n")


@case("a.csv: has no column 'heigt'. Did you mean 'height' or 'weight'?", columns=["heigt"])
def a_feature_that_is_misspelt():
    return text("a.csv", "height,weight,y\n1,2,3\n")


@case("a.h5ad: has no column 'labb'. Did you mean 'lab'? obs has 'lab', 'kind', 'note'.", label="labb")
def an_annotation_that_is_misspelt():
    return written(as_h5ad(), "a")


@case("b.h5ad: has no column 'lab'. {{.*}}", source="lab")
def an_annotation_that_only_the_first_file_has():
    import anndata

    data = anndata.AnnData(np.ones((3, 5)), var=pd.DataFrame(index=[f"x{i}" for i in range(5)]))
    data.write_h5ad("b.h5ad")
    return [written(as_h5ad(), "a"), "b.h5ad"]


@case("b.h5ad: has 'g' as a feature, and a.h5ad as an annotation of its rows.", label="g")
def a_label_that_is_a_feature_elsewhere():
    import anndata

    var = pd.DataFrame(index=["f", "g"])
    obs = pd.DataFrame({"g": ["u", "v", "w"]}, index=["0", "1", "2"])
    anndata.AnnData(np.ones((3, 2)), var=var, obs=obs).write_h5ad("a.h5ad")
    anndata.AnnData(np.ones((3, 2)), var=var).write_h5ad("b.h5ad")
    return ["a.h5ad", "b.h5ad"]


TWO_THINGS = (
    "a.csv: column 'y' is asked for as a feature, and also as source, label, weight, or to be encoded or left out. "
    "It can be only one of them."
)


@case(TWO_THINGS, columns=["x", "y"], label="y")
def a_label_that_is_to_be_a_feature():
    return text("a.csv", "x,y\n1,2\n")


@case(TWO_THINGS, columns=["x", "y"], drop=["y"])
def a_feature_that_is_to_be_left_out():
    return text("a.csv", "x,y\n1,2\n")


@case("a.csv: column 'x' is asked for twice.", columns=["x", "y", "x"])
def a_feature_that_is_asked_for_twice():
    return text("a.csv", "x,y\n1,2\n")


@case("a.csv: no columns are left to fit.", drop=["x", "y"])
def all_columns_left_out():
    return text("a.csv", "x,y\n1,2\n")


@case("The type to compute with must be float32 or float64. Got int32.", dtype="int32")
def a_type_that_is_no_floating_point_type():
    return text("a.csv", "x,y\n1,2\n")


@case(f"a.npy: row 2, column '1' is inf. {NOT_FINITE}", dtype="float32")
def a_number_that_does_not_fit_into_the_type_to_compute_with():
    np.save("a.npy", np.array([[1.0, 2.0], [3.0, 1e300]]))
    return "a.npy"


# -- sources, labels, categories ---------------------------------------------------------------------------------------


@case("a.csv: line 3, column 'lab' is empty.", source="lab")
def a_csv_without_a_source_in_one_row():
    return text("a.csv", "x,lab\n1,a\n2,\n3,c\n")


@case("a.parquet: row 3, column 'lab' is empty.", source="lab")
def parquet_without_a_source_in_one_row():
    return parquet("a.parquet", row_group_size=2)({"x": [1.0, 2.0, 3.0], "lab": ["a", "b", None]})


@case("a.parquet: row 2, column 'lab' is empty.", source="lab")
def a_source_that_is_nan():
    return parquet("a.parquet")({"x": [1.0, 2.0, 3.0], "lab": [1.0, np.nan, 2.0]})


@case("a.parquet: row 2, column 'lab' is empty.", encode=["lab"])
def a_category_that_is_missing():
    return parquet("a.parquet")({"x": [1.0, 2.0], "lab": pa.array(["a", None]).dictionary_encode()})


@case("a.h5ad: row 2, column 'lab' is empty.", label="lab")
def an_annotation_that_is_missing():
    import anndata

    obs = pd.DataFrame({"lab": pd.Categorical(["a", None, "b"])}, index=["0", "1", "2"])
    anndata.AnnData(np.ones((3, 2)), obs=obs).write_h5ad("a.h5ad")
    return "a.h5ad"


@case(
    "a.parquet: column 'lab' must have a name or a number in each row{{.*}} Got a column of date32[day].", source="lab"
)
def a_source_that_is_a_date_of_no_calendar():
    return parquet("a.parquet")({"x": [1.0], "lab": pa.array([3 * 10**8], pa.int32()).cast(pa.date32())})


NO_NAME = "a.parquet: column 'lab' must have a name or a number in each row to tell rows apart by. Got a column of {}."


@case(NO_NAME.format("list<element: int64>"), source="lab")
def a_source_that_is_a_list():
    return parquet("a.parquet")({"x": [1.0, 2.0], "lab": [[1], [2]]})


@case(NO_NAME.format("struct<a: int64>"), encode=["lab"])
def a_category_that_is_a_structure():
    return parquet("a.parquet")({"x": [1.0, 2.0], "lab": [{"a": 1}, {"a": 2}]})


@case(
    "a.csv: encoding 'lab' gives a feature 'lab=a', and there is a column of that name. Rename the column, or leave it "
    "out (drop=['lab=a']).",
    encode=["lab"],
)
def a_category_that_is_called_like_a_column():
    return text("a.csv", "x,lab=a,lab\n1,2,a\n1,2,b\n")


@case("The names of sources must be of one kind in all files. Got int, str.", source="lab")
def sources_of_two_kinds():
    one = parquet("a.parquet")({"x": [1.0], "lab": [1]})
    return [one, parquet("b.parquet")({"x": [1.0], "lab": ["b"]})]


TOO_MANY = "has more than 1000 categories, too many to encode. Leave it out with drop=."


@case(f"a.csv: column 'y' {TOO_MANY}", encode=["y"])
def too_many_categories():
    return text("a.csv", "x,y\n" + "".join(f"1,{i}\n" for i in range(1001)))


@case(f"a.parquet: column 'y' {TOO_MANY}", encode=["y"])
def too_many_categories_of_all_row_groups():
    return parquet("a.parquet", row_group_size=100)({"x": np.ones(2001), "y": np.arange(2001)})


@case(f"a.csv: column 'y' {TOO_MANY}", encode=["y"])
def too_many_categories_of_all_files():
    rows = ["".join(f"1,{i}\n" for i in range(start, start + 501)) for start in (0, 501)]
    return [text("a.csv", "x,y\n" + rows[0]), text("b.csv", "x,y\n" + rows[1])]


test_the_message_is_due = case.test()
