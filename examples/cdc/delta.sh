# Options of Spark with Delta, as the arguments of the script that reads this.
: "${DELTA:=io.delta:delta-spark_4.2_2.13:4.4.0}"
set -- --conf spark.jars.packages="$DELTA" \
    --conf spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension \
    --conf spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog
